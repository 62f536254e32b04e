"""Marks where the models of cells run, by torch's hooks for all modules, which exist only while a cell runs."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Any

import torch
from torch import nn

from .cell_models import CellModels
from .scene import Scene
from .unit_marks import SpanSink, UnitMarks


class CellMarks(UnitMarks):
    """
    Sets the scene's current unit, and reports spans, for all models that cells call. No hook is put on the user's modules, so that
    they can be copied and pickled within a cell.
    """

    def __init__(
        self, scene: Scene, models: CellModels, report: SpanSink, begins: Callable[[], None], in_model: Callable[[bool], None]
    ) -> None:
        """`begins` is called before a model's forward with gradients, and `in_model` when a model's forward begins and ends."""
        super().__init__(scene, report, lambda _: None)
        self._models = models
        self._begins = begins
        self._in_model = in_model
        # Per running unit: the module's id, the unit, the unit before it, and when it began.
        self._running: list[tuple[int, str, str, float]] = []

    def clear(self) -> None:
        """Forgets the units that run, because an error or an interrupt may have ended them."""
        self._running.clear()
        self._backward = None

    def enter(self, module: nn.Module, args: Any) -> None:
        """Must be called before a module's forward."""
        scene = self._scene
        if self._running:
            unit = self._models.unit_of(module, scene.in_backward)
            if unit is None:
                return
        else:
            if not self._models.called(module):
                return
            unit = self._models.unit_of(module, scene.in_backward) or self._models.name_of(module)
            if not scene.in_backward:
                self._model_begins()
        if unit != '':
            self._watch(args, lambda: self._leave_backward(unit))
        self._running.append((id(module), unit, scene.unit, monotonic()))
        scene.unit = unit

    def leave(self, module: nn.Module, args: Any, output: Any) -> None:
        """Must be called after a module's forward, also if the forward failed."""
        if not self._running or self._running[-1][0] != id(module):
            return
        _, unit, before, begun = self._running.pop()
        scene = self._scene
        scene.unit = before
        in_backward = scene.in_backward
        if unit != '' or not (self._running or in_backward):
            self._report('recompute' if in_backward else 'forward', unit, begun, monotonic())
        if unit != '':
            self._watch(output, lambda: self._enter_backward(unit))
        if not self._running and not in_backward:
            scene.spans.remove('forward')
            self._in_model(False)

    def _model_begins(self) -> None:
        # Within an optimizer's step, this is the closure of LBFGS, which runs passes.
        if torch.is_grad_enabled():
            self._begins()
        self._scene.spans.append('forward')
        self._in_model(True)

    def _watch(self, values: Any, call: Callable[[], None]) -> None:
        if not self._scene.in_backward and torch.is_grad_enabled():
            for tensor in self.graph_tensors(values):
                tensor.register_hook(lambda _: call())  # type: ignore[no-untyped-call]

    def graph_tensors(self, values: Any) -> list[torch.Tensor]:
        """Returns the tensors that have a place in a graph: the hook of another tensor would stay when the graph is freed."""
        items = values.values() if isinstance(values, dict) else values if isinstance(values, (list, tuple)) else [values]
        found = [item for item in items if isinstance(item, torch.Tensor)]
        return [tensor for tensor in found if tensor.requires_grad and not tensor.is_leaf]
