"""The hooks by which DDP compresses gradients."""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed import ProcessGroup
from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

from .errors import Json
from .seeded import normals


def register_comm_hook(replica: DistributedDataParallel, group: ProcessGroup, hook: Json) -> None:
    """Makes DDP compress gradients as `parallel.commHook` says."""
    power = _PowerSGD(replica.module, group, hook)
    replica.register_comm_hook(None, lambda _, bucket: power.reduce(bucket))


class _PowerSGD:
    """
    PyTorch's PowerSGD with the first random directions of src/sharding/ddp/power-sgd.ts: their values are written where PyTorch
    keeps the directions of the previous step, which it then uses in place of random ones.
    """

    def __init__(self, model: nn.Module, group: ProcessGroup, hook: Json) -> None:
        self._hook = hook
        self._names = {id(parameter): name for name, parameter in model.named_parameters()}
        self._state = PowerSGDState(
            group,
            matrix_approximation_rank=hook["matrixApproximationRank"],
            start_powerSGD_iter=hook["startPowerSGDIter"],
            min_compression_rate=hook["minCompressionRate"],
            use_error_feedback=hook["useErrorFeedback"],
            warm_start=hook["warmStart"],
        )
        self._state.warm_start = True

    def reduce(self, bucket: Any) -> Any:
        """Starts the reduction of a bucket."""
        state = self._state
        is_first = bucket.index() not in state.q_memory_dict or not self._hook["warmStart"]
        if state.iter >= state.start_powerSGD_iter and is_first:
            self._put_directions(bucket)
        return powerSGD_hook(state, bucket)

    def _put_directions(self, bucket: Any) -> None:
        # PyTorch orders matrices by their shape.
        by_shape: dict[torch.Size, list[tuple[str, int]]] = {}
        rows = 0
        for parameter, gradient in zip(bucket.parameters(), bucket.gradients(), strict=True):
            matrix = gradient.view(gradient.shape[0], -1)
            rank = min(*matrix.shape, self._state.matrix_approximation_rank)
            if sum(matrix.shape) * rank * self._state.min_compression_rate < matrix.numel():
                by_shape.setdefault(matrix.shape, []).append((self._names[id(parameter)], rank))
                rows += matrix.shape[0] * rank
        buffer: Tensor = bucket.buffer()
        drawn = [self._directions(name, shape[1] * rank) for shape, each in by_shape.items() for name, rank in each]
        self._state.p_memory_dict[bucket.index()] = buffer.new_empty(rows)
        self._state.q_memory_dict[bucket.index()] = torch.cat([torch.empty(0), *drawn]).to(buffer)

    def _directions(self, name: str, count: int) -> Tensor:
        random = normals(self._hook["randomSeed"], "powerSGD", name, self._state.iter)
        return torch.tensor(list(itertools.islice(random, count)))
