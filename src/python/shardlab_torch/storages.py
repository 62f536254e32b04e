"""All live storages of a process within one step: who owns their bytes, and when bytes were allocated and freed."""

from __future__ import annotations

import gc
import weakref
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, Iterator, NamedTuple

import torch

from .op_mode import has_storage, plain_tensors

ELSEWHERE = 'elsewhere'
"""The cause of bytes that do not belong to the run."""


@dataclass(eq=False)
class Holding:
    """One storage. Its cause is known at the step's end at the latest, and counts for the storage's whole life."""

    space: str
    num_bytes: int
    module: str = ''
    cause: str | None = None
    in_forward: bool = False
    """Whether the storage was made in a forward whose backward has not begun."""
    is_saved: bool = False
    """Whether backward needs the storage."""
    recompute: int | None = None
    """The number of the forward that ran again within backward and made the storage; None: no such forward."""
    ref: Any = field(default=None, repr=False)


class Change(NamedTuple):
    """Bytes that a storage gained or lost at one moment."""

    seconds: float
    holding: Holding
    delta_bytes: int


class Storages:
    """The live storages of one step by their address, and the changes of their bytes since the step's start."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._live: dict[int, Holding] = {}
        self._hidden: list[Holding] = []
        self.changes: list[Change] = []
        self.is_open = False

    def __iter__(self) -> Iterator[Holding]:
        yield from list(self._live.values())
        yield from self._hidden

    def find(self, tensor: torch.Tensor) -> Holding | None:
        """Returns the holding of a tensor's storage, or None if the storage is not known."""
        return self._live.get(tensor.untyped_storage()._cdata)

    def see(self, tensor: torch.Tensor) -> Holding | None:
        """Notes a tensor's storage. Returns its holding if the storage was not known before, else None."""
        if not has_storage(tensor):
            return None
        storage = tensor.untyped_storage()
        known = self._live.get(storage._cdata)
        if known is None:
            return self._add(storage, tensor.device)
        if known.num_bytes != storage.nbytes():
            self._resize(known, storage.nbytes())
        return None

    def see_input(self, tensor: torch.Tensor) -> Holding | None:
        """Like `see`, but for a tensor that may be older than the step. Its storage may be one that only C++ code held."""
        if self._hidden and has_storage(tensor) and self.find(tensor) is None:
            storage = tensor.untyped_storage()
            for holding in self._hidden:
                if holding.num_bytes == storage.nbytes():
                    self._hidden.remove(holding)
                    self._bind(storage, holding)
                    return None
        return self.see(tensor)

    def drop_freed(self) -> None:
        """Forgets freed storages that are still known, because an interrupt ended the callback that forgets them."""
        for address, holding in list(self._live.items()):
            if holding.ref() is None:
                del self._live[address]

    def add_hidden(self, num_bytes: int, cause: str, module: str) -> None:
        """Adds bytes of a storage that C++ code holds and that no Python object shows yet."""
        self._hidden.append(Holding('device', num_bytes, module, cause))

    def resized(self, storage: Any) -> None:
        """Notes that code called `resize_` on a storage."""
        known = self._live.get(storage._cdata)
        if known is not None:
            self._resize(known, storage.nbytes())

    def scan(self, cause: str | None = ELSEWHERE) -> int:
        """
        Adds the unknown storages of all tensors of the process, and gives them a cause (by default, that of bytes that belong to no
        run). Returns their bytes.
        """
        found = 0
        for item in gc.get_objects():
            if not issubclass(type(item), torch.Tensor):
                continue
            for tensor in plain_tensors(item):
                holding = self.see_input(tensor) if has_storage(tensor) and self._is_near(tensor.device) else None
                if holding is not None:
                    holding.cause = cause
                    found += holding.num_bytes
        return found

    def _is_near(self, device: torch.device) -> bool:
        return device.type == self._device.type

    def _add(self, storage: Any, device: torch.device) -> Holding:
        # The device is the tensor's: the storage of a fake tensor, which has no values, is on 'meta'.
        space = 'device' if self._is_near(device) else 'host'
        holding = Holding(space, 0)
        self._bind(storage, holding)
        self._resize(holding, storage.nbytes())
        return holding

    def _bind(self, storage: Any, holding: Holding) -> None:
        address = storage._cdata

        def freed(_: Any) -> None:
            if self._live.get(address) is holding:
                del self._live[address]
                self._resize(holding, 0)

        holding.ref = weakref.ref(storage, freed)
        self._live[address] = holding

    def _resize(self, holding: Holding, num_bytes: int) -> None:
        delta = num_bytes - holding.num_bytes
        holding.num_bytes = num_bytes
        if self.is_open and delta != 0:
            self.changes.append(Change(monotonic(), holding, delta))
