"""Marks where a model's units run: hooks that exist only within recorded steps."""

from __future__ import annotations

from time import monotonic
from typing import Any, Callable, Sequence

import torch
from torch import nn
from torch.utils.hooks import RemovableHandle

from .model_states import clean_name
from .scene import Scene

SpanSink = Callable[[str, str, float, float], None]


class UnitMarks:
    """Sets the scene's current unit in forward, backward and recompute, and reports a span for each run of a unit."""

    def __init__(self, scene: Scene, report: SpanSink, claim_inputs: Callable[[Any], None]) -> None:
        self._scene = scene
        self._report = report
        self._claim_inputs = claim_inputs
        self._handles: list[RemovableHandle] = []
        self._forwards: list[tuple[str, float]] = []
        self._backward: tuple[str, float] | None = None

    def place(self, model: nn.Module, names: Sequence[str]) -> None:
        """Registers the hooks on the model and its units; remove them by `remove`."""
        units = {clean_name(name) for name in names} - {''}
        found: set[str] = set()
        self._hook(model, '')
        for name, module in model.named_modules():
            unit = clean_name(name)
            if unit in units:
                # In backward, a checkpoint's wrapper runs only the wrapped module again, not the wrapper.
                self._hook(module, unit, only_recompute=unit in found)
                found.add(unit)

    def remove(self) -> None:
        """Removes the hooks and ends an open span."""
        self.end_backward()
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def _hook(self, module: nn.Module, unit: str, only_recompute: bool = False) -> None:
        def enter(_: nn.Module, args: Any, kwargs: Any) -> None:
            if only_recompute and not self._scene.in_backward:
                return
            if unit == '':
                self._claim_inputs([*args, *kwargs.values()])
            self._watch([*args, *kwargs.values()], lambda: self._leave_backward(unit))
            self._forwards.append((self._scene.unit, monotonic()))
            self._scene.unit = unit

        def leave(_: nn.Module, args: Any, output: Any) -> None:
            if only_recompute and not self._scene.in_backward:
                return
            before, begun = self._forwards.pop()
            self._scene.unit = before
            if unit != '':
                self._report('recompute' if self._scene.in_backward else 'forward', unit, begun, monotonic())
                self._watch(output, lambda: self._enter_backward(unit))

        self._handles.append(module.register_forward_pre_hook(enter, prepend=True, with_kwargs=True))
        self._handles.append(module.register_forward_hook(leave, always_call=True))

    def _watch(self, values: Any, call: Callable[[], None]) -> None:
        if self._scene.in_backward:
            return
        tensors = values.values() if isinstance(values, dict) else values
        for tensor in _outer_tensors(tensors):
            if tensor.requires_grad:
                tensor.register_hook(lambda _: call())  # type: ignore[no-untyped-call]

    def _enter_backward(self, unit: str) -> None:
        if self._backward is not None and self._backward[0] == unit:
            return
        self.end_backward()
        self._backward = (unit, monotonic())
        self._scene.unit = unit

    def _leave_backward(self, unit: str) -> None:
        if self._backward is not None and self._backward[0] == unit:
            self.end_backward()

    def end_backward(self) -> None:
        """Ends the span of the unit whose backward is open, if there is one."""
        if self._backward is not None:
            unit, begun = self._backward
            self._report('backward', unit, begun, monotonic())
            self._backward = None
            self._scene.unit = ''


def _outer_tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in _outer_tensors(item)]
    return []

