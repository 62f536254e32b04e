"""The memory of a cell's steps: the storages of all cells of a rank, which outlive a cell."""

from __future__ import annotations

from dataclasses import dataclass
from time import monotonic, sleep
from typing import Any, Iterable, Sequence

import torch

from .cell_models import CellModels
from .memory_ledger import Fold, StorageLedger, TrackedMemory, tracked_between
from .model_states import State
from .op_mode import has_storage, plain_tensors
from .scene import Scene
from .storages import ELSEWHERE, Holding


# A look at all objects of the process may take this share of a cell's time.
LOOK_TIME = 0.1
# A step stores at most this number of changes, as in src/ledger/step-events.ts.
MOST_CHANGES = 400_000
# The longest wait for other threads at the end of a step, and the time after which the main thread looks again.
SETTLE_SECONDS = 0.05
PAUSE_SECONDS = 5e-4


@dataclass(frozen=True)
class MemoryMark:
    """A moment of the memory at which a step may end."""

    seconds: float
    num_changes: int


class CellMemory(StorageLedger):
    """
    Follows the storages of cells. Between cells it only holds weak references to storages. It is an observer of `OpMode`.

    [Note: activations of cells] A trainer sees what backward saves by torch's hooks for saved tensors. A cell must not have such
    hooks: with them, torch does not notice that a saved tensor was changed in place. So an activation is a storage that an operation
    made from a tensor with a gradient, or that a model's forward made, and that exists when backward begins. Other
    tensors that exist when a pass begins are its batch.
    """

    def __init__(self, scene: Scene, models: CellModels, device: torch.device) -> None:
        super().__init__(scene, device)
        self._models = models
        self.in_model = False
        """Whether a model's forward runs."""
        self._buffers: list[Holding] = []
        self._fold: Fold | None = None
        self._opened = 0.0
        self._look_seconds = 0.0

    def open(self, elsewhere: Iterable[State], after_others: bool) -> None:
        """
        Begins a cell's first step; `elsewhere` are states of runs, which do not belong to cells. `after_others` says whether other work
        than cells was done since the last cell.
        """
        self._storages.drop_freed()
        if after_others:
            self._look(ELSEWHERE)
            for tensor in self._models.tensors_of_variables():
                holding = self._storages.find(tensor) if has_storage(tensor) else None
                if holding is not None and holding.cause == ELSEWHERE:
                    holding.cause = None
        self.claim(State(state.tensor, ELSEWHERE, '') for state in elsewhere)
        self.claim_states()
        self._start = self._opened = monotonic()
        self.in_model = False
        self._buffers.clear()
        self._fold = None
        self._was_in_backward = False
        self._was_in_recompute = False
        self._storages.changes = []
        self._before = {holding: holding.num_bytes for holding in self._storages}
        self._storages.is_open = True

    def close(self) -> int | None:
        """
        Ends the cell. Returns the bytes of the storages that the ledger saw in no operation; None if a look at all objects of the
        process would take long in comparison with the cell.
        """
        self._storages.is_open = False
        unseen = self._look(None) if self._look_seconds <= LOOK_TIME * (monotonic() - self._opened) else None
        self.claim_states()
        return unseen

    def _look(self, cause: str | None) -> int:
        begun = monotonic()
        found = self._storages.scan(cause)
        self._look_seconds = monotonic() - begun
        return found

    def mark(self) -> MemoryMark:
        """Returns the present moment."""
        return MemoryMark(monotonic(), len(self._storages.changes))

    def settle(self) -> None:
        """
        Waits until buffers of ended collectives are freed, but only for a short time: a thread of gloo holds them until it gets
        Python's lock.
        """
        until = monotonic() + SETTLE_SECONDS
        while any(_is_buffer(holding) for holding in self._buffers) and monotonic() < until:
            sleep(PAUSE_SECONDS)
        # A buffer that is still there is held by somebody else, so nobody waits for it again.
        self._buffers.clear()

    def cut(self, mark: MemoryMark, unseen_bytes: int | None = None) -> TrackedMemory:
        """
        Ends the step at a moment and returns its memory; later changes begin the next step. The states must have been claimed
        since the moment.
        """
        storages = self._storages
        changes, storages.changes = storages.changes[: mark.num_changes], storages.changes[mark.num_changes :]
        fold, self._fold = self._fold, None
        after = dict(self._before if fold is None else fold.at_end)
        for change in changes:
            after[change.holding] = after.get(change.holding, 0) + change.delta_bytes
        after = {holding: num_bytes for holding, num_bytes in after.items() if num_bytes != 0}
        memory = tracked_between((self._start, mark.seconds), self._before, changes, after, unseen_bytes, fold)
        self._before = after
        self._start = mark.seconds
        return memory

    @property
    def is_full(self) -> bool:
        """Whether so many changes are stored that `fold` must be called."""
        return len(self._storages.changes) >= MOST_CHANGES

    def fold(self) -> None:
        """Forgets the changes so far, but not the peak that they reached: a cell that never updates may run for hours."""
        changes, self._storages.changes = self._storages.changes, []
        earlier = self._fold
        held = dict(self._before if earlier is None else earlier.at_end)
        # Bytes of runs are in no peak.
        total = sum(num_bytes for holding, num_bytes in held.items() if _counts(holding))
        peak = total if earlier is None else earlier.peak_bytes
        highest = 0 if earlier is None else -1
        for i, change in enumerate(changes, 1):
            total += change.delta_bytes if _counts(change.holding) else 0
            if total > peak:
                peak, highest = total, i
        at_peak = dict(held) if earlier is None or highest >= 0 else earlier.at_peak
        seconds = self._start if earlier is None else earlier.peak_seconds
        for i, change in enumerate(changes, 1):
            held[change.holding] = held.get(change.holding, 0) + change.delta_bytes
            if i == highest:
                at_peak, seconds = dict(held), change.seconds
        at_end = {holding: num_bytes for holding, num_bytes in held.items() if num_bytes != 0}
        self._fold = Fold(seconds, peak, at_peak, at_end)

    def claim_states(self) -> None:
        """Gives the storages of all models' and optimizers' states their causes."""
        self.claim(self._models)

    def pass_begins(self) -> None:
        """Gives the cause 'batch' to the tensors that no model and no earlier pass made."""
        for holding in self._storages:
            if holding.cause is None and not (holding.in_forward or holding.is_saved) and holding.recompute is None:
                holding.cause = 'batch'
                holding.module = ''

    def after_op(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any], result: Any, begun: float) -> None:
        flows = False
        for tensor in plain_tensors([*args, *kwargs.values()]):
            flows = flows or tensor.requires_grad
            self._born_in(self._storages.see_input(tensor), False)
        for tensor in plain_tensors(result):
            self._born_in(self._storages.see(tensor), flows or self.in_model)
        if func.namespace == 'c10d' and self._scene.in_backward:
            # The buckets of DDP's reducer, which only C++ code holds.
            for tensor in plain_tensors([*args]):
                holding = self._storages.find(tensor) if has_storage(tensor) else None
                if holding is not None and holding.cause is None:
                    holding.cause, holding.module = 'comm', ''

    def _born_in(self, holding: Holding | None, in_pass: bool) -> None:
        self._born(holding)
        if holding is not None:
            holding.in_forward = holding.in_forward and in_pass
            if holding.cause == 'comm' and self._scene.comm is not None:
                self._buffers.append(holding)


def _is_buffer(holding: Holding) -> bool:
    # The output of a reduce-scatter may have become a gradient, which stays.
    return holding.cause == 'comm' and holding.num_bytes > 0


def _counts(holding: Holding) -> bool:
    return holding.space == 'device' and holding.cause != ELSEWHERE
