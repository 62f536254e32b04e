"""Batches and passes of a model of the user's own that has any inputs, or a loss of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from .batches import Batch, Batches
from .courier import Courier
from .errors import Json
from .layout import Layout
from .own_model import OwnClass, OwnStages
from .passes import Passes
from .stages import Stages
from .strategy import Strategy
from .trees import called, leaves, mapped


@dataclass(frozen=True)
class OwnBatch(Batch):
    """A microbatch that the user's function made: tensors in dicts, tuples and lists."""

    # The inputs of forward. A dict has them by name, a tuple or a list in their order.
    inputs: Any = None
    targets: Any = None


class OwnBatches(Batches):
    """Makes microbatches by the function of the user's file. The launcher only sends the learning rates."""

    def __init__(self, courier: Courier, run: int, rank: int, device: torch.device, own: OwnClass) -> None:
        super().__init__(courier, run, rank, device)
        self._own = own

    def step(self, first: int, count: int, skipped: int) -> tuple[list[Batch], list[float]]:
        _, rates = super().step(first, count, skipped)
        return [self._made(first + i) for i in range(count)], rates

    def _made(self, index: int) -> Batch:
        made = self._own.batch(self._rank, index)
        inputs, targets = made if self._own.loss is not None else (made, None)
        move = lambda tensor: tensor.to(self._device)  # noqa: E731
        return OwnBatch((), inputs=mapped(inputs, move), targets=mapped(targets, move))


class OwnPasses(Passes):
    """Passes that give a batch's inputs to forward by name or in their order, and compute the user's loss."""

    def __init__(self, strategy: Strategy, stages: Stages, layout: Layout, shape: Json) -> None:
        super().__init__(strategy, stages, layout, shape)
        assert isinstance(stages, OwnStages)
        self._own = stages.own

    def count(self, batch: Batch) -> int:
        """Returns the number of a batch's rows, or of the tokens that are predicted."""
        if not isinstance(batch, OwnBatch):
            return super().count(batch)
        first = next((tensor for _, tensor in leaves(batch.inputs) if isinstance(tensor, Tensor)), None)
        return 1 if first is None or first.ndim == 0 else len(first)

    def _inputs(self, batch: Batch) -> tuple[tuple[Any, ...], Any]:
        if isinstance(batch, OwnBatch):
            return (batch.inputs,), batch.targets
        ids, targets = batch.tokens()
        return (ids,), targets

    def _call(self, module: nn.Module, inputs: tuple[Any, ...]) -> Any:
        return called(module, inputs[0])

    def _mean_loss(self, output: Any, targets: Any, has_labels: bool) -> Tensor:
        return self._own.loss_of(output, targets).float()
