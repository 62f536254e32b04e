"""Forward and backward of microbatches, for a model that is whole on each rank and for a pipeline's stages."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.pipelining import Schedule1F1B, ScheduleGPipe, ScheduleInterleaved1F1B
from torch.distributed.tensor.parallel import loss_parallel

from .batches import Batch
from .context_parallel import ContextParallel
from .errors import Json
from .gradients import local_of
from .head import Output, loss_of, whole_logits
from .json_stage import JsonStage
from .layout import Layout
from .moe import read_keys, with_auxiliary
from .noise import token_keys
from .packing import Packing
from .stages import Stages
from .strategy import Strategy

Span = Callable[[str], contextlib.AbstractContextManager[None]]


class Passes:
    """Passes of a model that is whole on each rank."""

    def __init__(self, strategy: Strategy, stages: Stages, layout: Layout, shape: Json) -> None:
        self.strategy = strategy
        self.stages = stages
        self.layout = layout
        self.shape = shape
        parallel = strategy.config["parallel"]
        self.context = ContextParallel(layout, parallel, shape)
        for module in stages.modules:
            self.context.divide(module)
        self.packing = Packing()
        data = strategy.config["data"]
        if isinstance(data, dict) and data.get("packing"):
            for module in stages.modules:
                self.packing.apply(module)
        self.sequence_ranks = layout.tp if parallel["sequenceParallel"] else 1

    def count(self, batch: Batch) -> int:
        """Returns the number of a batch's tokens that are predicted."""
        tokens = batch.tensors[0]
        return tokens.shape[0] * (tokens.shape[1] - 1)

    def run(self, batch: Batch, scale: float, is_last: bool, span: Span) -> float:
        """
        Runs forward and backward; gradients are multiplied by `scale`, and added to earlier gradients. Returns the mean loss; NaN
        on ranks without the loss.
        """
        scale *= batch.factor
        with self.strategy.pass_context(is_last), self._split_loss(), self.packing.documents(batch.documents):
            with span("forward"), self.strategy.compute(), self.strategy.offload.activations():
                self.stages.draws.begin_pass()
                inputs, targets = self._inputs(batch)
                output = self._call(self.strategy.modules[0], inputs)
                loss = with_auxiliary(self._mean_loss(output, targets, batch.has_labels), self.stages.modules)
                value = float(local_of(loss.detach())) * batch.factor
            with span("backward"):
                self.strategy.backward(loss * scale if scale != 1 else loss)
        return value

    def loss(self, batch: Batch) -> float:
        """Returns the mean loss of a batch on every rank, without gradients."""
        with torch.no_grad(), self.strategy.compute(), self._split_loss(), self.packing.documents(batch.documents):
            inputs, targets = self._inputs(batch)
            output = self._chain(*inputs)
            value = float("nan") if output is None else float(local_of(self._mean_loss(output, targets, batch.has_labels)))
        return self.shared(value * batch.factor)

    def logits(self, ids: Tensor) -> Tensor | None:
        """Returns the logits of the last position; None on ranks that have no logits. Shapes: ids [1, T] → [vocab]."""
        last = ids.shape[1] - 1
        # No position attends to later positions, so zeros at the end may make the length divisible by the number of ranks.
        ids = F.pad(ids, (0, -ids.shape[1] % self.sequence_ranks))
        read_keys(self.stages.modules, lambda: token_keys(ids))
        with torch.no_grad(), self.strategy.compute(), self.context.whole():
            output = self._chain(ids)
        # The vocabulary of a user's own model may have fewer tokens than the model has outputs.
        return None if output is None else whole_logits(output)[0, last, : self.shape["vocab"]]

    def shared(self, value: float) -> float:
        """Returns, on every rank, the value that the last stage's rank gave."""
        if self.layout.pp == 1:
            return value
        tensor = torch.tensor([value], dtype=torch.float64, device=self.layout.world.device)
        dist.broadcast(tensor, self.layout.rank_of_stage(self.layout.pp - 1), group=self.layout.pp_group)
        return float(tensor)

    def _inputs(self, batch: Batch) -> tuple[tuple[Tensor, ...], Tensor]:
        """Returns the model's inputs and the targets on this rank. Shapes: [B, T / cp] each."""
        ids, targets = batch.tokens()
        # The noise of a gate depends on all earlier tokens.
        read_keys(self.stages.modules, lambda: self.context.cut(token_keys(ids)))
        return (self.context.cut(ids),), self.context.cut(targets)

    def _mean_loss(self, output: Output, targets: Tensor, has_labels: bool) -> Tensor:
        return loss_of(output, targets, has_labels)

    def _call(self, module: nn.Module, inputs: tuple[Tensor, ...]) -> Output:
        return module(*inputs)  # type: ignore[no-any-return]

    def _chain(self, *inputs: Tensor) -> Output | None:
        return self._call(self.strategy.parts[0], inputs)

    def _split_loss(self) -> contextlib.AbstractContextManager[Any]:
        """Returns the context in which a loss reads logits that are split over the vocabulary."""
        return loss_parallel() if self.layout.tp > 1 else contextlib.nullcontext()


class PipelinePasses(Passes):
    """Passes of a pipeline: a batch is divided into microbatches, which the schedule sends through the stages."""

    def __init__(self, strategy: Strategy, stages: Stages, layout: Layout, shape: Json) -> None:
        super().__init__(strategy, stages, layout, shape)
        config = strategy.config
        parallel = config["parallel"]
        self._count = int(parallel["microbatches"] or config["batch"])
        self._scale = 1.0
        self._has_labels = False
        device = layout.world.device
        made = [
            JsonStage(module, index, stages.count, device, group=layout.pp_group, begin=stages.draws.begin_pass)
            for module, index in zip(strategy.modules, stages.indices, strict=True)
        ]
        options: Json = {"n_microbatches": self._count, "loss_fn": self._loss, "scale_grads": False}
        self._schedule: Any
        if len(made) > 1:
            self._schedule = ScheduleInterleaved1F1B(list(made), **options)
        else:
            # torch's 1F1B refuses fewer microbatches than stages. GPipe takes any number, and then has nearly the same order.
            is_gpipe = parallel["schedule"] == "gpipe" or self._count < stages.count
            self._schedule = (ScheduleGPipe if is_gpipe else Schedule1F1B)(made[0], **options)
        self._has_first = 0 in stages.indices
        self._has_last = stages.count - 1 in stages.indices

    def run(self, batch: Batch, scale: float, is_last: bool, span: Span) -> float:
        self._scale = scale * batch.factor / self._count
        self._has_labels = batch.has_labels
        losses: list[Tensor] = []
        ids, targets = self._inputs(batch)
        inputs = ids if self._has_first else ()
        ends: Json = {"target": targets, "losses": losses} if self._has_last else {}
        # The schedule runs forwards and backwards of microbatches in turn, so both are in one span.
        strategy = self.strategy
        with strategy.pass_context(is_last), self._split_loss(), span("backward"), strategy.compute(), strategy.offload.activations():
            self._schedule.step(*inputs, **ends, return_outputs=False)
        return sum(float(local_of(loss.detach())) for loss in losses) / scale if self._has_last else float("nan")

    def _loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        return loss_of(logits, targets, self._has_labels) * self._scale

    def _chain(self, *inputs: Tensor) -> Tensor | None:
        """Runs the stages one after another on the whole batch. The last stage's rank returns the output, other ranks None."""
        layout, stages, (x,) = self.layout, self.stages, inputs
        shape = (x.shape[0], x.shape[1] // self.sequence_ranks, self.shape["dim"])
        dtype = self.strategy.precision.param or torch.float32
        for index in range(stages.count):
            place = index % layout.pp
            if place != layout.pp_rank:
                continue
            if index > 0:
                x = torch.empty(shape, dtype=dtype, device=layout.world.device)
                dist.recv(x, layout.rank_of_stage((index - 1) % layout.pp), group=layout.pp_group)
            x = self.strategy.parts[stages.indices.index(index)](x)
            if index < stages.count - 1:
                dist.send(x.to(dtype).contiguous(), layout.rank_of_stage((index + 1) % layout.pp), group=layout.pp_group)
        return x if self._has_last else None
