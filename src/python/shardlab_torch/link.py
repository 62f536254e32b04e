"""The control link: frames between this rank and the launcher, each with a message authentication code.

The launcher sends 32 random bytes; the rank answers with its hello, whose code proves that it knows the key. Both then use
keys that are valid for this connection only. A frame's code covers its number, so no frame can be forged, repeated or left out.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import socket
import struct
import threading
import time

from .errors import Json

NONCE_BYTES = 32
MAC_BYTES = 32
MAX_FRAME_BYTES = 2**31


class LinkError(Exception):
    """The other side is not the launcher, or the connection is damaged."""


def mac_of(key: bytes, data: bytes) -> bytes:
    """Returns the authentication code of some bytes."""
    return hmac.new(key, data, hashlib.sha256).digest()


def encode(message: Json, blob: bytes = b"") -> bytes:
    """Returns the payload of a frame."""
    text = json.dumps(message, allow_nan=False, separators=(",", ":")).encode()
    return struct.pack(">I", len(text)) + text + blob


def decode(payload: bytes) -> tuple[Json, bytes]:
    """Returns the message and the blob of a payload."""
    (size,) = struct.unpack_from(">I", payload)
    return json.loads(payload[4 : 4 + size]), payload[4 + size :]


def read_exactly(sock: socket.socket, size: int) -> bytes | None:
    """Reads `size` bytes; None: the connection ended before all of them arrived."""
    parts = bytearray()
    while len(parts) < size:
        part = sock.recv(min(size - len(parts), 2**20))
        if not part:
            return None
        parts += part
    return bytes(parts)


class Link:
    """One side of an authenticated connection. Any thread may send; one thread receives."""

    def __init__(self, sock: socket.socket, receive_key: bytes, send_key: bytes) -> None:
        self._sock = sock
        self._receive_key = receive_key
        self._send_key = send_key
        self._received = 0
        self._sent = 0
        self._sending = threading.Lock()
        self._pid = os.getpid()

    @staticmethod
    def connect(host: str, port: int, key: bytes, rank: int) -> "Link":
        """Connects this rank to the launcher. Raises LinkError and OSError."""
        sock = socket.create_connection((host, port))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        challenge = read_exactly(sock, NONCE_BYTES)
        if challenge is None:
            raise LinkError("the launcher closed the connection before its challenge")
        nonce = os.urandom(NONCE_BYTES)
        payload = encode({"rank": rank, "nonce": nonce.hex(), "pid": os.getpid()})
        sock.sendall(frame(mac_of(mac_of(key, b"hello" + challenge), payload), payload))
        names = (b"to rank", b"from rank")
        to_rank, from_rank = (mac_of(key, name + challenge + nonce) for name in names)
        return Link(sock, to_rank, from_rank)

    def send(self, message: Json, blob: bytes = b"") -> None:
        """
        Sends a message. Raises OSError if the connection has ended. A process that this process has forked (a worker of a DataLoader)
        sends nothing: its frames would have numbers that this process uses too.
        """
        if os.getpid() != self._pid:
            return
        payload = encode(message, blob)
        with self._sending:
            mac = mac_of(self._send_key, struct.pack(">Q", self._sent) + payload)
            self._sent += 1
            self._sock.sendall(frame(mac, payload))

    def receive(self) -> tuple[Json, bytes] | None:
        """Waits for the next message; None: the connection has ended. Raises LinkError for a frame that is not the launcher's."""
        head = read_exactly(self._sock, 4)
        if head is None:
            return None
        (size,) = struct.unpack(">I", head)
        if not MAC_BYTES + 4 <= size <= MAX_FRAME_BYTES:
            raise LinkError(f"received a frame of {size} bytes, which is not a valid size")
        body = read_exactly(self._sock, size)
        if body is None:
            return None
        payload = body[MAC_BYTES:]
        expected = mac_of(self._receive_key, struct.pack(">Q", self._received) + payload)
        if not hmac.compare_digest(body[:MAC_BYTES], expected):
            raise LinkError("a frame has a wrong authentication code")
        self._received += 1
        return decode(payload)

    def close(self) -> None:
        """Ends the connection."""
        self._sock.close()

    def end_when_silent(self, beat: float, silent: float) -> None:
        """Sends a sign of life every `beat` seconds. `receive` now raises OSError if no message comes for `silent` seconds."""
        self._sock.settimeout(silent)

        def run() -> None:
            with contextlib.suppress(OSError):  # the connection has ended
                while True:
                    time.sleep(beat)
                    self.send({"type": "alive"})

        threading.Thread(target=run, name="beat", daemon=True).start()


def frame(mac: bytes, payload: bytes) -> bytes:
    """Returns the bytes of a frame."""
    return struct.pack(">I", len(mac) + len(payload)) + mac + payload
