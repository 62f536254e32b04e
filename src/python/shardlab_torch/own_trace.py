"""
The work and the memory of one microbatch, module by module.

A segment is a part of the forward: operations that follow each other directly in one module, without a call of another module between
them; and the operations of their backward. A call has steps: segments, and calls of inner modules. [Note: traced models] in
src/planner/dry-run/traced-model.ts says how a plan repeats them.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from .errors import Json
from .op_mode import has_storage, plain_tensors
from .own_kernels import kernels_of


@dataclass(eq=False)
class Segment:
    """Operations of one module, and of their backward."""

    params: dict[str, None] = field(default_factory=dict)
    # The operations of forward and of backward.
    kernels: tuple[list[Json], list[Json]] = field(default_factory=lambda: ([], []))


@dataclass(eq=False)
class Call:
    """A call of a module; `first` is the storage of a block's input, if a gradient flows into it."""

    module: str
    steps: list[Any] = field(default_factory=list)
    first: Any = None


@dataclass(eq=False)
class Held:
    """A storage that the microbatch made. Segments have indices in the order of forward."""

    num_bytes: int
    is_float: bool
    made_in: int
    in_backward: bool
    freed_in: int | None = None
    freed_in_backward: bool = True
    ref: Any = None


class OwnTrace:
    """Observes the operations of one forward and backward of `model`."""

    def __init__(self, model: nn.Module, blocks: Sequence[nn.Module], batch: Iterable[Tensor]) -> None:
        self._model = model
        self._blocks = set(blocks)
        self._names = {module: name for name, module in model.named_modules()}
        self._params = {_key(each): name for name, each in model.named_parameters() if has_storage(each)}
        self._known = {*self._params, *(_key(each) for each in [*model.buffers(), *batch] if has_storage(each))}
        self._segments: list[Segment] = []
        self._root = Call("")
        self._frames = [self._root]
        self._in_backward = False
        self._at = 0
        # For each node of autograd, by its number: the index of its segment.
        self._nodes: dict[int, int] = {}
        self._live: dict[int, Held] = {}
        # All storages, and the order in which they were made (True) and freed (False), each with the segment and the pass.
        self._changes: list[tuple[Held, bool, int, bool]] = []
        self._gradients: list[Held] = []

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Follows the calls of modules while the context is open."""
        with ExitStack() as stack:
            for module in self._names:
                stack.callback(module.register_forward_pre_hook(self._enter, with_kwargs=True).remove)
                stack.callback(module.register_forward_hook(self._leave, always_call=True).remove)
            yield

    def begin_backward(self) -> None:
        self._in_backward = True
        self._at = len(self._segments) - 1

    def end(self) -> None:
        """Notes which storages are gradients of parameters. Call it after backward."""
        grads = [each.grad for each in self._model.parameters() if each.grad is not None]
        self._gradients = [held for each in grads if (held := self._live.get(_key(each))) is not None]

    def before_op(self, begun: float) -> None:
        if self._in_backward:
            node = torch._C._current_autograd_node()
            self._at = self._at if node is None else self._nodes.get(node._sequence_nr(), self._at)
            return
        steps = self._frames[-1].steps
        if not steps or not isinstance(steps[-1], int):
            self._segments.append(Segment())
            steps.append(len(self._segments) - 1)
        self._at = steps[-1]
        # The operation's node has the last number that was given.
        self._nodes.setdefault(torch.autograd._get_sequence_nr() - 1, self._at)  # type: ignore[attr-defined]

    def after_op(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any], result: Any, begun: float) -> None:
        read = [each for each in plain_tensors([*args, *kwargs.values()]) if has_storage(each)]
        made = [each for each in plain_tensors(result) if has_storage(each)]
        segment = self._segments[self._at]
        if not self._in_backward:
            segment.params.update((name, None) for each in read if (name := self._params.get(_key(each))) is not None)
        keys = {_key(each) for each in read}
        if not func.is_view and (func._schema.is_mutable or any(_key(each) not in keys for each in made)):
            segment.kernels[self._in_backward].extend(kernels_of(func, args, kwargs, read, made))
        for each in made:
            self._see(each)

    def _see(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self._live or key in self._known:
            return
        held = Held(storage.nbytes(), tensor.dtype == torch.float32, self._at, self._in_backward)
        self._live[key] = held
        self._changes.append((held, True, self._at, self._in_backward))

        def freed(_: Any) -> None:
            if self._live.get(key) is held:
                del self._live[key]
                held.freed_in, held.freed_in_backward = self._at, self._in_backward
                self._changes.append((held, False, self._at, self._in_backward))

        held.ref = weakref.ref(storage, freed)

    def _enter(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        if self._in_backward:
            return
        call = Call(self._names[module])
        if module in self._blocks:
            inputs = plain_tensors([*args, *kwargs.values()])
            call.first = next((held for each in inputs if each.requires_grad and (held := self._live.get(_key(each)))), None)
        self._frames[-1].steps.append(call)
        self._frames.append(call)

    def _leave(self, module: nn.Module, args: Any, output: Any) -> None:
        if not self._in_backward:
            self._frames.pop()

    def facts(self) -> Json:
        """Returns the model's parameters and buffers, the segments, and the calls, as `Traced` of src/planner/dry-run/traced.ts."""
        memory = SegmentMemory(len(self._segments), self._changes, self._gradients)
        order = [name for name, _ in self._model.named_parameters()]
        firsts = dict(_firsts(self._root))
        for index, held in firsts.items():
            memory.carry(index, held)
        segments = []
        for index, segment in enumerate(self._segments):
            forward, backward = segment.kernels
            segments.append(
                {
                    "params": [order.index(name) for name in segment.params],
                    **memory.facts(index),
                    "forward": forward,
                    "backward": backward,
                }
            )
        return {**self._tensors(), "segments": segments, "steps": _steps_of(self._root)}

    def _tensors(self) -> Json:
        names: dict[Tensor, list[str]] = {}
        for name, each in self._model.named_parameters(remove_duplicate=False):
            names.setdefault(each, []).append(name)
        parameters = [{"names": names[each], "shape": list(each.shape), "trains": each.requires_grad} for _, each in self._model.named_parameters()]
        buffers = [
            {"name": name, "shape": list(each.shape), "bytes": each.numel() * each.element_size(), "isFloat": each.dtype == torch.float32}
            for name, each in self._model.named_buffers()
        ]
        kinds = [{"name": name, "kind": type(module).__name__} for name, module in self._model.named_modules()]
        return {"parameters": parameters, "buffers": buffers, "modules": kinds}


class SegmentMemory:
    """The bytes that each segment keeps for backward, and those that it needs for itself."""

    def __init__(self, count: int, changes: list[tuple[Held, bool, int, bool]], gradients: list[Held]) -> None:
        # The carried bytes between a segment and the one before it; 0: only the order is carried.
        self._carried = [0] * (count + 1)
        self._keeps_input = [False] * count
        self._saved: list[list[int]] = [[0, 0] for _ in range(count)]
        self._peaks = ([0] * count, [0] * count)
        live = 0
        for held, is_made, index, in_backward in changes:
            if held in gradients:
                continue
            live += held.num_bytes if is_made else -held.num_bytes
            peaks = self._peaks[in_backward]
            peaks[index] = max(peaks[index], live)
        for held in {each: None for each, *_ in changes}:
            if not held.in_backward and held.freed_in_backward:
                self._saved[self.reader(held)][not held.is_float] += held.num_bytes

    @staticmethod
    def reader(held: Held) -> int:
        """Returns the segment whose backward is the last one that needs a storage."""
        return held.made_in if held.freed_in is None else max(held.freed_in, held.made_in)

    def carry(self, index: int, held: Held) -> None:
        """Carries a block's input into the segment with an index, the block's first one; activation checkpointing stores it."""
        if not held.is_float or index == 0:
            return
        self._carried[index] = held.num_bytes
        if held.freed_in_backward and self.reader(held) == index:
            self._keeps_input[index] = True
            self._saved[index][0] -= held.num_bytes

    def facts(self, index: int) -> Json:
        floats, others = self._saved[index]
        before = sum(sum(each) for each in self._saved[: index + 1])
        before += sum(size for size, keeps in zip(self._carried[: index + 1], self._keeps_input[: index + 1]) if keeps)
        passing = self._carried[index + 1] + (0 if self._keeps_input[index] else self._carried[index])
        forward, backward = (max(0, peaks[index] - before - passing) for peaks in self._peaks)
        return {
            "carried": self._carried[index + 1] // 4,
            "keepsInput": self._keeps_input[index],
            "savedFloats": floats // 4,
            "savedBytes": others,
            "forwardBytes": forward,
            "backwardBytes": backward,
        }


def _key(tensor: Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def _firsts(call: Call) -> Iterator[tuple[int, Held]]:
    """Yields, for each block that gets an input with a gradient, the block's first segment and the input."""
    for step in call.steps:
        if isinstance(step, Call):
            first = _first_of(step)
            if step.first is not None and first is not None:
                yield first, step.first
            yield from _firsts(step)


def _first_of(call: Call) -> int | None:
    return next((found for step in call.steps if (found := step if isinstance(step, int) else _first_of(step)) is not None), None)


def _steps_of(call: Call) -> list[Any]:
    return [step if isinstance(step, int) else {"module": step.module, "steps": _steps_of(step)} for step in call.steps]
