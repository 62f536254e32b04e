"""Batches and passes of a model of the user's own that has any inputs, or a loss of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
        (given,) = inputs
        if isinstance(given, dict):
            return module(**given)
        return module(*given) if isinstance(given, (tuple, list)) else module(given)

    def _mean_loss(self, output: Any, targets: Any, has_labels: bool) -> Tensor:
        return self._own.loss_of(output, targets).float()


def mapped(tree: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """Returns dicts, tuples and lists with each tensor changed."""
    if isinstance(tree, Tensor):
        return change(tree)
    if isinstance(tree, dict):
        return {key: mapped(each, change) for key, each in tree.items()}
    if isinstance(tree, (tuple, list)):
        return [mapped(each, change) for each in tree]
    return tree


def leaves(tree: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yields the values in dicts, tuples and lists, each with its place, such as 'x' or 'pair.0'."""
    if isinstance(tree, (dict, tuple, list)):
        for key, each in tree.items() if isinstance(tree, dict) else enumerate(tree):
            yield from leaves(each, f"{name}.{key}" if name else str(key))
    else:
        yield name, tree
