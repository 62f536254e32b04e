"""Context parallelism: each rank has a part of the positions of the same sequences, or of the patches of the same videos."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator

import torch.distributed as dist
from torch import Tensor, nn

from .attention import attention_to_all, causal_attention, repeated, rows_at
from .dit import Dit
from .errors import Json, ShardlabError
from .exchange import exchanged, gathered
from .layout import Layout
from .moe import MixtureOfExperts
from .ring_attention import ring_attention


class ContextParallel:
    """Divides sequences over the ranks of the axis cp, and computes attention over the positions of all these ranks."""

    def __init__(self, layout: Layout, parallel: Json, shape: Json) -> None:
        self._group, self._rank, self._size = layout.cp_group, layout.cp_rank, layout.cp
        self._is_ring = parallel["cpKind"] == "ring"
        self._is_causal = shape["kind"] != "dit"
        self._is_whole = False
        if self._size > 1:
            self._require(shape["heads"] // layout.tp, layout.world.device.type)

    def _require(self, heads: int, device: str) -> None:
        if self._is_ring and device != "cpu":
            raise ShardlabError("CONFIG", "parallel.cpKind: the ring computes on CPUs only; on GPUs use 'ulysses'")
        if not self._is_ring and heads % self._size != 0:
            raise ShardlabError(
                "CONFIG",
                f"parallel.cp: Ulysses cannot divide {heads} heads among {self._size} ranks; give a divisor of {heads}, or "
                "cpKind 'ring'",
            )

    def divide(self, model: nn.Module) -> None:
        """Makes a model, or a stage of it, compute this rank's positions."""
        if self._size == 1:
            return
        for module in model.modules():
            if isinstance(module, Dit):
                module.divide(self, self._attend)
            if self._is_causal and hasattr(module, "attend"):
                module.attend = self._attend  # type: ignore[assignment]
            if hasattr(module, "positions"):
                module.positions = self._positions  # type: ignore[assignment]
            if isinstance(module, MixtureOfExperts):
                module.total = self._total

    def cut(self, x: Tensor, dim: int = 1) -> Tensor:
        """Returns the values of x at this rank's positions. Shapes: [B, T, …] → [B, T / ranks, …]."""
        return rows_at(x, self._ranges(x.shape[dim]), dim)

    def gather(self, x: Tensor) -> Tensor:
        """
        Returns the patches of all ranks. Backward sums the gradients of all ranks, and returns this rank's part. Shapes:
        [B, N / ranks, d] → [B, N, d].
        """
        return gathered(x, self._group, 1)

    @contextlib.contextmanager
    def whole(self) -> Iterator[None]:
        """Within the context, every rank computes whole sequences."""
        self._is_whole = True
        try:
            yield
        finally:
            self._is_whole = False

    def _ranges(self, length: int) -> list[range]:
        """
        Returns the positions of this rank. With a causal mask, each rank of a ring has an early and a late chunk, so that all ranks
        compute equally many scores. Source: ring-flash-attention's zigzag order.
        """
        size, rank = self._size, self._rank
        if size == 1 or not (self._is_ring and self._is_causal):
            part = length // size
            return [range(rank * part, (rank + 1) * part)]
        chunk = length // (2 * size)
        return [range(i * chunk, (i + 1) * chunk) for i in (rank, 2 * size - 1 - rank)]

    def _positions(self, own: int) -> list[range]:
        return [range(own)] if self._is_whole else self._ranges(own * self._size)

    def _total(self, counts: Tensor) -> Tensor:
        if not self._is_whole:
            dist.all_reduce(counts, group=self._group)
        return counts

    def _attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        if self._is_whole:
            return causal_attention(q, k, v)
        if self._is_ring:
            return ring_attention(q, k, v, self._group, self._is_causal)
        heads = math.lcm(k.shape[1], self._size)
        own = [self._heads_of_sequence(x) for x in (q, repeated(k, heads), repeated(v, heads))]
        return self._sequence_of_heads((causal_attention if self._is_causal else attention_to_all)(*own))

    def _heads_of_sequence(self, x: Tensor) -> Tensor:
        """Returns all positions of this rank's heads. Shapes: [B, H, T / P, D] → [B, H / P, T, D]."""
        batch, heads, own, width = x.shape
        split = x.reshape(batch, self._size, heads // self._size, own, width).transpose(0, 1)
        parts = exchanged(split, self._group).permute(1, 2, 0, 3, 4)
        return parts.reshape(batch, heads // self._size, own * self._size, width)

    def _sequence_of_heads(self, x: Tensor) -> Tensor:
        """Returns this rank's positions of all heads. Shapes: [B, H / P, T, D] → [B, H, T / P, D]."""
        batch, own, length, width = x.shape
        split = x.reshape(batch, own, self._size, length // self._size, width).permute(2, 0, 1, 3, 4)
        return exchanged(split, self._group).transpose(0, 1).reshape(batch, own * self._size, length // self._size, width)
