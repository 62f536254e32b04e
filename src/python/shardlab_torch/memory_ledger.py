"""The memory of one tracked step: bytes by cause and module at its start, its peak and its end, and over time."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from time import monotonic
from typing import Any, Iterable, Iterator, Mapping, Sequence

import torch
from torch import nn

from .model_states import ModelStates, State
from .op_mode import has_storage, plain_tensors
from .scene import Scene
from .storages import ELSEWHERE, Change, Holding, Storages


@dataclass(frozen=True)
class Owner:
    """A cause, a module and a space, as `Owner` of src/ledger/record.ts."""

    cause: str
    module: str
    space: str

    def as_json(self) -> dict[str, str]:
        return {'cause': self.cause, 'module': self.module, 'space': self.space}


@dataclass(frozen=True)
class FoldedMemory:
    """The part of a very long step whose changes are no longer stored: only its peak and its end are. Bytes are by owner."""

    peak_seconds: float
    at_peak: dict[Owner, int]
    at_end: dict[Owner, int]


@dataclass(frozen=True)
class TrackedMemory:
    """The memory of a tracked step. Times are of the machine's monotonic clock, in seconds."""

    start: float
    end: float
    at_start: dict[Owner, int]
    changes: list[tuple[float, Owner, int]]
    elsewhere_bytes: int
    num_buffers: int
    unseen_bytes: int | None
    """
    Bytes at the step's end in storages that the ledger saw in no operation of the step, such as storages of other threads; None:
    nobody looked for such storages.
    """
    folded: FoldedMemory | None = None
    """The step's first part, if `changes` has only the changes after it."""


class StorageLedger:
    """Decides causes and modules of storages while operations run. It is an observer of `OpMode`."""

    def __init__(self, scene: Scene, device: torch.device) -> None:
        self._scene = scene
        self._storages = Storages(device)
        self._was_in_backward = False
        self._num_recomputes = 0
        self._was_in_recompute = False
        self._start = 0.0
        self._before: dict[Holding, int] = {}

    @property
    def storages(self) -> Storages:
        """The storages that are known."""
        return self._storages

    def claim(self, states: Iterable[State]) -> None:
        """Gives the storages of these states their causes; if several states share a storage, the first state decides."""
        seen: set[int] = set()
        for state in states:
            for tensor in plain_tensors(state.tensor):
                if not has_storage(tensor):
                    continue
                self._storages.see(tensor)
                holding = self._storages.find(tensor)
                if holding is None or id(holding) in seen:
                    continue
                seen.add(id(holding))
                holding.cause, holding.module = state.cause, state.module

    def claim_inputs(self, inputs: Any) -> None:
        """Gives the cause 'batch' to inputs of the model that were made before the step or outside of a forward."""
        for tensor in plain_tensors(inputs):
            holding = self._storages.find(tensor) if has_storage(tensor) else None
            if holding is not None and (holding.cause == ELSEWHERE or (holding.cause is None and not holding.in_forward)):
                holding.cause = 'batch'

    def before_op(self, begun: float) -> None:
        scene = self._scene
        if scene.in_backward and not self._was_in_backward:
            self._leave_forward()
        self._was_in_backward = scene.in_backward
        in_recompute = scene.in_recompute
        if in_recompute and not self._was_in_recompute:
            self._num_recomputes += 1
        elif self._was_in_recompute and not in_recompute:
            self._leave_recompute()
        self._was_in_recompute = in_recompute

    def after_op(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any], result: Any, begun: float) -> None:
        for tensor in plain_tensors([*args, *kwargs.values()]):
            self._born(self._storages.see_input(tensor))
        for tensor in plain_tensors(result):
            self._born(self._storages.see(tensor))

    def _born(self, holding: Holding | None) -> None:
        if holding is None:
            return
        scene = self._scene
        holding.module = scene.module
        holding.cause = scene.memory or ('batch' if scene.within('data') else None)
        if scene.in_recompute:
            holding.recompute = self._num_recomputes
        elif not scene.in_backward and torch.is_grad_enabled() and not scene.within('optimizer'):
            holding.in_forward = True

    def _leave_forward(self) -> None:
        """Marks storages that the forward made and did not free: backward needs them (also inputs of checkpointed modules)."""
        for holding in self._storages:
            if holding.in_forward:
                holding.in_forward = False
                holding.is_saved = True

    def _leave_recompute(self) -> None:
        for holding in self._storages:
            if holding.recompute == self._num_recomputes:
                holding.is_saved = True


class MemoryLedger(StorageLedger):
    """Follows all storages within one step."""

    def __init__(self, scene: Scene, states: ModelStates, device: torch.device) -> None:
        super().__init__(scene, device)
        self._states = states
        self._unseen_bytes = 0

    def begin(self) -> None:
        """Finds all storages that exist before the step. Call it before this ledger observes operations."""
        self._claim_buckets()
        self.claim_states()
        self._storages.scan()

    @contextmanager
    def track(self) -> Iterator[None]:
        """Follows the storages while the context is open; after that, `tracked` returns the step's memory."""
        storages = self._storages
        self._before = {holding: holding.num_bytes for holding in storages}
        self._start = monotonic()
        storages.is_open = True
        with ExitStack() as stack:
            stack.enter_context(torch.autograd.graph.saved_tensors_hooks(self._save, lambda tensor: tensor))
            stack.enter_context(resizes_reported(storages))
            hook = getattr(self._states.optimizer, 'register_step_pre_hook', None)
            if hook is not None:
                stack.callback(hook(lambda *_: self.claim_states()).remove)
            yield
        self.claim_states()
        self._leave_forward()
        storages.is_open = False
        self._unseen_bytes = storages.scan()

    def tracked(self) -> TrackedMemory:
        """Returns the step's memory."""
        storages = self._storages
        after = {holding: holding.num_bytes for holding in storages}
        moments = (self._start, monotonic())
        return tracked_between(moments, self._before, storages.changes, after, self._unseen_bytes)

    def claim_states(self) -> None:
        """Gives the storages of the model's states their causes."""
        self.claim(self._states)

    def _save(self, tensor: torch.Tensor) -> torch.Tensor:
        for part in plain_tensors(tensor):
            holding = self._storages.find(part) if has_storage(part) else None
            if holding is not None:
                holding.is_saved = True
        return tensor

    def _claim_buckets(self) -> None:
        """Adds the buckets of DDP's reducer, which only C++ code holds."""
        model = self._states.model
        if not isinstance(model, nn.parallel.DistributedDataParallel):
            return
        model.reducer._rebuild_buckets()  # the second forward would begin with this call
        are_grads = model.gradient_as_bucket_view
        for bucket in model.reducer._get_zeros_like_grad_buckets():
            first = bucket.parameters()[0]
            num_bytes = bucket.buffer().untyped_storage().nbytes()
            if not are_grads:
                self._storages.add_hidden(num_bytes, 'comm', '')
            elif first.grad is None or first.grad.untyped_storage().nbytes() != num_bytes:
                self._storages.add_hidden(num_bytes, 'grad.full', '')


@contextmanager
def resizes_reported(storages: Storages) -> Iterator[None]:
    """Replaces `resize_` of storages: FSDP frees and allocates whole parameters by `resize_`, which a mode does not see."""
    kind = torch.UntypedStorage
    original = kind.resize_

    def resize(self: Any, size: int) -> Any:
        result = original(self, size)
        storages.resized(self)
        return result

    kind.resize_ = resize  # type: ignore[method-assign]
    try:
        yield
    finally:
        del kind.resize_


@dataclass(frozen=True)
class Fold:
    """The part of a step whose changes are no longer stored. Bytes are by holding."""

    peak_seconds: float
    peak_bytes: int
    at_peak: dict[Holding, int]
    at_end: dict[Holding, int]


def tracked_between(
    moments: tuple[float, float],
    before: Mapping[Holding, int],
    changes: Sequence[Change],
    after: Mapping[Holding, int],
    unseen_bytes: int | None,
    fold: Fold | None = None,
) -> TrackedMemory:
    """
    Returns the memory between two moments, before and after which the holdings had these bytes. Owners are decided only now, so
    an allocation and its free have the same owner.
    """
    owners: dict[Holding, Owner | None] = {}

    def owner_of(holding: Holding) -> Owner | None:
        if holding not in owners:
            cause = holding.cause or ('activation' if holding.is_saved else 'temp')
            owner = None if cause == ELSEWHERE else Owner(cause, holding.module, holding.space)
            owners[holding] = owner
        return owners[holding]

    def by_owner(held: Mapping[Holding, int]) -> dict[Owner, int]:
        sums: dict[Owner, int] = {}
        for holding, num_bytes in held.items():
            owner = owner_of(holding)
            if owner is not None:
                sums[owner] = sums.get(owner, 0) + num_bytes
        return sums

    owned = [
        (change.seconds, owner, change.delta_bytes)
        for change in changes
        if (owner := owner_of(change.holding)) is not None
    ]
    live = [(holding, num_bytes) for holding, num_bytes in after.items() if num_bytes > 0 and holding.space == 'device']
    elsewhere = sum(num_bytes for holding, num_bytes in live if holding.cause == ELSEWHERE)
    num_buffers = sum(holding.cause != ELSEWHERE for holding, _ in live)
    folded = None
    if fold is not None:
        folded = FoldedMemory(fold.peak_seconds, by_owner(fold.at_peak), by_owner(fold.at_end))
    return TrackedMemory(*moments, by_owner(before), owned, elsewhere, num_buffers, unseen_bytes, folded)
