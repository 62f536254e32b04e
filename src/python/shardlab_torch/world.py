"""The process groups of a rank: the job's group, groups of the job's first ranks, and groups of runs."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import ProcessGroup
from torch.distributed.device_mesh import DeviceMesh

from .calls import Calls
from .courier import Courier
from .errors import Json, ShardlabError, text_of
from .link_store import LinkStore
from .members import Members, StrangerError
from .sockets import disconnect

# Names that are not in torch's types.
_DIST: Any = dist
_C10D: Any = dist.distributed_c10d

# Collectives that all ranks have begun end within this time.
SETTLE_SECONDS = 0.02
# How often ranks make their first group if strangers take part, which costs PROOF_SECONDS each time. A failed recovery ends the job.
ATTEMPTS = 6


class World:
    """All process groups of this rank. A failure aborts some of them; `recover` makes new ones."""

    def __init__(self, courier: Courier, key: bytes) -> None:
        self.rank = int(os.environ["RANK"])
        self.size = int(os.environ["WORLD_SIZE"])
        self.device = _device()
        self.backend = "nccl" if self.device.type == "cuda" else "gloo"
        self._store = LinkStore(courier)
        self.calls = Calls()
        self._members = Members(key, self.calls.admit)
        self._epoch = 0
        self._names: dict[str, tuple[str, list[int]]] = {}
        self._made: dict[str, ProcessGroup] = {}
        self._ranks: dict[int, list[int]] = {}
        self._begin()

    def _begin(self) -> None:
        """Makes the group of all ranks. If a stranger takes part, all ranks end that group and make another, but not for ever."""
        for _ in range(ATTEMPTS - 1):
            try:
                return self._meet()
            except StrangerError:
                self._end()
        self._meet()

    def _meet(self) -> None:
        prefixed = _DIST.PrefixStore(_prefix(self._epoch), self._store)
        # A slow rank may still read values of the epoch before.
        self._store.forget(_prefix(self._epoch - 2))
        device_id = self.device if self.device.type == "cuda" else None
        dist.init_process_group(
            self.backend, store=prefixed, rank=self.rank, world_size=self.size, device_id=device_id
        )
        self._know(self.default, "world", list(range(self.size)))
        self._ranks[0] = list(range(self.size))

    @property
    def default(self) -> ProcessGroup:
        """The group of all ranks, which cells use."""
        group = dist.group.WORLD
        if group is None:
            raise ShardlabError("INTERNAL", "this rank has no process group")
        return group

    def declare(self, reference: Json) -> None:
        """Stores the ranks of a group (the job's first ranks) under the launcher's number; runs make their own groups of them."""
        self._ranks[int(reference["id"])] = list(range(int(reference["size"])))

    def ranks_of(self, reference: Json) -> list[int]:
        """Returns the ranks of a declared group."""
        return self._ranks[int(reference["id"])]

    def make(self, ranks: Sequence[int], axis: str) -> ProcessGroup:
        """Returns the group of some ranks along an axis; only these ranks may call this method. Runs share groups."""
        name = f"{axis} {','.join(map(str, ranks))}"
        if name in self._made:
            return self._made[name]
        with _named(name):
            group: ProcessGroup = dist.new_group(list(ranks), use_local_synchronization=True, group_desc=name)
        self._know(group, "world" if len(ranks) == self.size else name, list(ranks))
        self._made[name] = group
        return group

    def mesh(self, shape: dict[str, int], ranks: Sequence[int]) -> tuple[DeviceMesh, list[ProcessGroup]]:
        """Makes a mesh of ranks, with this rank's group of each axis. Only the mesh's ranks may call this method."""
        places = torch.tensor(list(ranks)).view(*shape.values())
        here = [int(index) for index in (places == self.rank).nonzero()[0]]
        groups = []
        for axis, name in enumerate(shape):
            index: list[int | slice] = list(here)
            index[axis] = slice(None)
            members = [int(rank) for rank in places[tuple(index)]]
            groups.append(self.make(members, name))
        given = groups if len(groups) > 1 else groups[0]
        names = tuple(shape)
        return DeviceMesh.from_group(given, self.device.type, mesh=places, mesh_dim_names=names), groups

    def name_of(self, group_name: str) -> tuple[str, list[int]]:
        """Returns our name of one of torch's groups, and its global ranks."""
        return self._names.get(group_name, (group_name, []))

    def label(self, group: ProcessGroup) -> str:
        """Returns our name of a group, or torch's; also of a group that has been destroyed."""
        return self.name_of(group.group_name)[0]

    def describe(self, group: object) -> tuple[str, list[int], int]:
        """
        Returns a group's name, which no other group has, its global ranks and the number of its newest collective; `group` None is the
        default group.
        """
        if isinstance(group, DeviceMesh):
            group = group.get_group(0)
        if isinstance(group, str):
            group = _C10D._resolve_process_group(group)
        found = group if isinstance(group, ProcessGroup) else self.default
        name, ranks = self.name_of(found.group_name)
        if name == "world" and found is not self.default:
            name = found.group_name
        if not ranks:
            ranks = dist.get_process_group_ranks(found)
        return name, ranks, self.calls.number(found)

    def last_called(self) -> dict[str, int]:
        """Returns the numbers of the newest calls, by the streams of src/launch/control/situation.ts."""
        numbers: dict[str, int] = {}
        for group in list(_C10D._world.pg_group_ranks):
            # torch also lists the groups of other ranks, as an object without a number.
            if not isinstance(group, ProcessGroup):
                continue
            name, ranks, number = self.describe(group)
            numbers[name] = number
            for (op, peer), newest in self.calls.pairs(group).items():
                numbers[f"{name} {op} {self.rank} {ranks[peer]}"] = newest
        return numbers

    def groups_of_cells(self) -> list[ProcessGroup]:
        """Returns the groups that belong to no run: the job's group, and the groups that cells made."""
        return [self.default] + [
            group for group in _C10D._world.pg_map if group.group_name not in self._names
        ]

    def abort(self, groups: Sequence[ProcessGroup]) -> None:
        """Ends all collectives of some groups with an error, on this rank and on its peers."""
        for group in groups:
            if self.device.type == "cuda":
                group._get_backend(self.device).abort()
            # Gloo has no abort: its collectives fail when their connections end.
            for descriptor in self._members.sockets(group):
                disconnect(descriptor)

    def recover(self) -> None:
        """Makes a new group of all ranks and ends all older groups. Every rank must call this method."""
        self._end_pending()
        self._end()
        self._begin()

    def _end(self) -> None:
        """Ends all groups. The next groups meet under other keys of the store."""
        # Torch knows the group of all ranks as such only after it has been made without an error.
        unfinished = None if dist.is_initialized() else next(iter(_C10D._world.pg_map), None)
        if unfinished is not None:
            _C10D._update_default_pg(unfinished)
        if dist.is_initialized():
            dist.destroy_process_group()
        self._names.clear()
        self._members.forget()
        self.calls.forget()
        self._made.clear()
        self._epoch += 1

    def _end_pending(self) -> None:
        """
        Ends the collectives that interrupted work has begun without waiting for them. They would wait for ranks that never call
        them, and a group is freed only after all its collectives have ended.
        """
        if self.device.type == "cuda":
            return
        time.sleep(SETTLE_SECONDS)
        self.abort(list(_C10D._world.pg_map))

    def _know(self, group: ProcessGroup, name: str, ranks: list[int]) -> None:
        self._names[group.group_name] = (name, ranks)


def _prefix(epoch: int) -> str:
    return f"shardlab {epoch} "


def is_lost(error: BaseException) -> bool:
    """Whether a collective failed because its connection to another rank ended, which means that the other rank failed first."""
    return isinstance(error, dist.DistError) or (isinstance(error, RuntimeError) and "gloo/transport" in text_of(error))


@contextmanager
def _named(name: str) -> Iterator[None]:
    """Gives the next group a name. Torch's own names depend on how many groups a process has, so they differ between ranks."""
    original = _C10D._process_group_name
    _C10D._process_group_name = lambda *_, **__: name
    try:
        yield
    finally:
        _C10D._process_group_name = original


def _device() -> torch.device:
    if not torch.cuda.is_available():
        return torch.device("cpu")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
    torch.cuda.set_device(device)
    return device
