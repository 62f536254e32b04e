"""Proofs that the processes that connected in a new group are the ranks of this job.

gloo listens on a port while it makes a group, and takes whoever connects first with the right small number. So after torch has
made a group, and before anything else travels in it, each two ranks prove to each other that they know the job's key: each
sends a code over the new connection. The code covers random bytes of both ranks, which travelled by the store, so an old
code is of no use. Then the group's port drops all further connections.
"""

from __future__ import annotations

import ctypes
import datetime
import functools
import hashlib
import hmac
import os
import socket
import struct
import sys
from collections.abc import Callable
from typing import Any, cast

import torch
import torch.distributed as dist
from torch.distributed import ProcessGroup

from .errors import ShardlabError
from .sockets import disconnect, open_sockets

NONCE_BYTES = 32
CODE_BYTES = 32
# When a rank has read the random bytes of all members, all of them have made their connections, so their codes come at once.
PROOF_SECONDS = 5

# Names that are not in torch's types.
_C10D: Any = dist.distributed_c10d
_TORCH_C: Any = torch._C


class StrangerError(ShardlabError):
    """A process that does not know the job's key connected in place of some ranks of a new group. All its ranks raise this error."""

    def __init__(self, size: int, places: list[int]) -> None:
        ranks = f"rank {places[0]}" if len(places) == 1 else f"ranks {', '.join(map(str, places))}"
        super().__init__(
            "RANK_FAILED",
            f"a process that is no rank of this job connected in place of {ranks} of a new group of {size} ranks, so the group was ended, "
            "and that process got no values; find it (`ss -tnp` lists connections), and run this again; if the error returns, launch the job again",
        )


class Members:
    """
    Makes sure that torch makes no group over gloo with a process that does not know the job's key: neither the job's groups nor those
    of runs, libraries and cells.
    """

    def __init__(self, key: bytes, admitted: Callable[[ProcessGroup], None]) -> None:
        """`admitted` is called with each new group, after the proofs."""
        self._key = key
        self._admitted = admitted
        self._sockets: dict[str, set[int]] = {}
        original = _C10D._new_process_group_helper

        @functools.wraps(original)
        def helper(*args: Any, **kwargs: Any) -> Any:
            before = open_sockets()
            made = original(*args, **kwargs)
            group = made[0] if isinstance(made, tuple) else None
            if isinstance(group, ProcessGroup) and group.group_name not in self._sockets:
                self._admit(group, made[1], before)
            return made

        _C10D._new_process_group_helper = helper

    def sockets(self, group: ProcessGroup) -> set[int]:
        """Returns the descriptors of the sockets that a group has opened."""
        return self._sockets.get(group.group_name, set())

    def forget(self) -> None:
        """Forgets all groups, which have ended."""
        self._sockets.clear()

    def _admit(self, group: ProcessGroup, store: Any, before: set[int]) -> None:
        self._sockets[group.group_name] = open_sockets() - before
        if "gloo" not in str(dist.get_backend_config(group)):
            return
        # torch knows the group only after it returns, so a recorder of operations could not name the group of these proofs.
        with _TORCH_C._DisableTorchDispatch():
            found = self._stranger(group, store)
        strangers = self._agreed(group, store, found)
        # Those who connected late are in the set too.
        opened = self._sockets[group.group_name] = open_sockets() - before
        if strangers:
            for descriptor in opened:
                disconnect(descriptor)
            raise StrangerError(group.size(), strangers)
        self._admitted(group)
        _close_doors(opened)

    def _stranger(self, group: ProcessGroup, store: Any) -> int | None:
        """Exchanges codes with each other member. Returns the rank in whose place a stranger is; None: there is none."""
        rank, size = group.rank(), group.size()
        store.set(f"nonce/{rank}", os.urandom(NONCE_BYTES))
        nonces = _values(group, store, "nonce")

        def code(sender: int, receiver: int) -> bytes:
            place = struct.pack(">II", sender, receiver)
            return hmac.new(self._key, b"member" + place + nonces[sender] + nonces[receiver], hashlib.sha256).digest()

        peers = [peer for peer in range(size) if peer != rank]
        sent = [group.send([torch.tensor(list(code(rank, peer)), dtype=torch.uint8)], peer, 0) for peer in peers]
        for peer in peers:
            if not hmac.compare_digest(_received(group, peer), code(peer, rank)):
                return peer
        for work in sent:
            work.wait()
        return None


    def _agreed(self, group: ProcessGroup, store: Any, stranger: int | None) -> list[int]:
        """Tells all members whom this rank has found; returns the ranks in whose places some member has found a stranger."""
        store.set(f"stranger/{group.rank()}", b"" if stranger is None else str(stranger).encode())
        return sorted({int(found) for found in _values(group, store, "stranger") if found})


def _values(group: ProcessGroup, store: Any, name: str) -> list[bytes]:
    """Waits until all members have set a value; returns the values by rank."""
    keys = [f"{name}/{peer}" for peer in range(group.size())]
    store.wait(keys, cast(Any, group)._get_backend(torch.device("cpu")).options._timeout)
    return [bytes(store.get(key)) for key in keys]


def _received(group: ProcessGroup, peer: int) -> bytes:
    """Returns the code that a peer sent; b'': none came in time, or the connection ended."""
    got = torch.zeros(CODE_BYTES, dtype=torch.uint8)
    try:
        group.recv([got], peer, 0).wait(datetime.timedelta(seconds=PROOF_SECONDS))
    except RuntimeError:
        return b""
    return bytes(got.tolist())


# A filter of packets that drops every packet: one instruction of the kernel's filters, "return 0 bytes".
_SO_ATTACH_FILTER = 26
_DROP = struct.pack("HBBI", 0x06, 0, 0, 0)


def _close_doors(opened: set[int]) -> None:
    """Makes the group's ports drop new connections; those of the group go on. Other systems than Linux keep the ports open."""
    if sys.platform != "linux":
        return
    code = ctypes.create_string_buffer(_DROP, len(_DROP))
    program = struct.pack("HL", 1, ctypes.addressof(code))
    for descriptor in opened:
        with socket.socket(fileno=os.dup(descriptor)) as sock:
            if sock.family == socket.AF_INET and sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                sock.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, program)
