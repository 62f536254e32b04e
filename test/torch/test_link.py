"""The control link refuses everyone who does not know the key."""

from __future__ import annotations

import os
import secrets
import socket
import struct
import threading

import pytest
from launcher import accept

from shardlab_torch.link import Link, LinkError, encode, frame, mac_of

KEY = secrets.token_bytes(32)


def connected(key_of_rank: bytes = KEY) -> tuple[Link, tuple[int, Link] | None, socket.socket]:
    """Connects a rank to a launcher that knows KEY; returns both sides, and the launcher's socket."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        found: list[Link] = []
        port = server.getsockname()[1]
        thread = threading.Thread(target=lambda: found.append(Link.connect("127.0.0.1", port, key_of_rank, 3)))
        thread.start()
        sock, _ = server.accept()
        other = accept(sock, KEY)
        thread.join()
        return found[0], other, sock


def test_messages_and_blobs_arrive_in_both_directions() -> None:
    rank, launcher, _ = connected()
    assert launcher is not None and launcher[0] == 3
    launcher[1].send({"type": "work"}, b"\x01\x02")
    assert rank.receive() == ({"type": "work"}, b"\x01\x02")
    rank.send({"type": "ended"})
    rank.send({"type": "ready"})
    assert launcher[1].receive() == ({"type": "ended"}, b"")
    assert launcher[1].receive() == ({"type": "ready"}, b"")


def test_a_rank_with_a_wrong_key_is_not_accepted() -> None:
    rank, launcher, _ = connected(secrets.token_bytes(32))
    assert launcher is None
    assert rank.receive() is None


def test_a_recorded_hello_is_not_accepted_again() -> None:
    recorded = encode({"rank": 3, "nonce": secrets.token_bytes(32).hex(), "pid": 1})
    hello = frame(mac_of(mac_of(KEY, b"hello" + secrets.token_bytes(32)), recorded), recorded)
    with socket.create_server(("127.0.0.1", 0)) as server:
        stranger = socket.create_connection(server.getsockname())
        sock, _ = server.accept()
        stranger.sendall(hello)
        assert accept(sock, KEY) is None


@pytest.mark.parametrize("what", ["random", "replayed", "forged"])
def test_a_frame_that_is_not_the_launchers_next_one_ends_the_link(what: str) -> None:
    rank, launcher, sock = connected()
    assert launcher is not None
    payload = encode({"type": "work"})
    first = frame(mac_of(launcher[1]._send_key, struct.pack(">Q", 0) + payload), payload)
    if what == "replayed":
        sock.sendall(first)
        assert rank.receive() == ({"type": "work"}, b"")
    sock.sendall({"random": os.urandom(200), "replayed": first, "forged": frame(os.urandom(32), payload)}[what])
    sock.shutdown(socket.SHUT_WR)
    try:
        assert rank.receive() is None  # random bytes may look like the beginning of a long frame
        assert what == "random"
    except LinkError:
        pass
