"""
Dropout whose elements are a function of the seed, the layer's name, the data-parallel rank and the pass, so ranks of this library
and of PyTorch drop the same elements. torch's own dropout would draw other numbers, because its generator has a state.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from .seeded import drawn

_MASK = 0xFFFFFFFF


@dataclass
class _Place:
    # The number of passes (forwards of a microbatch) that have begun, and of draws since the pass began.
    passes: int = 0
    draws: int = 0


class Draws:
    """The random numbers of a rank's layers. `rank` is its index among the ranks with different batches. Source: src/nn/module.ts."""

    def __init__(self, seed: int, rank: int) -> None:
        self._seed, self._rank = seed, rank
        self._place = _Place()

    def begin_batch(self, index: int) -> None:
        """Begins a microbatch of the optimizer's step; `index` counts over the whole run."""
        self._place = _Place(passes=index)

    def begin_pass(self) -> None:
        """Begins a forward: layers draw other numbers than in the forward before."""
        self._place = _Place(self._place.passes + 1)

    def dropped(self, x: Tensor, layer: str, rate: float) -> Tensor:
        """Sets elements of x to 0 with the probability `rate`, and divides the others by 1 - rate. The result has x's shape."""
        # An expert without rows draws nothing, as here it does not run.
        if x.numel() == 0:
            return x
        place = self._place
        numbers = drawn(self._seed, "draw", layer, self._rank, place.passes, place.draws)
        seeds = [number >> 1 for number in islice(numbers, 2)]
        place.draws += 1
        hashes = _mixed(_mixed(torch.arange(x.numel(), device=x.device) ^ seeds[0]) + seeds[1])
        is_dropped = (hashes < int(rate * 2**32)).view(x.shape)
        return (x * (1 / (1 - rate))).masked_fill(is_dropped, 0)

    def repeatable(self, forward: Callable[..., Any]) -> Callable[..., Any]:
        """Returns a function whose second call, in backward, draws the numbers of its first call. Source: src/engine/autograd/region.ts."""
        start = replace(self._place)
        is_again = False

        def call(*inputs: Any, **named: Any) -> Any:
            nonlocal is_again
            if not is_again:
                is_again = True
                return forward(*inputs, **named)
            now, self._place = self._place, replace(start)
            try:
                return forward(*inputs, **named)
            finally:
                self._place = now

        return call


def _mixed(numbers: Tensor) -> Tensor:
    """Hashes numbers of 32 bits. Source: MurmurHash3's fmix32, as in src/engine/backend/kernels/assembly/dropout.ts."""
    h = numbers & _MASK
    h = ((h ^ (h >> 16)) * 0x85EBCA6B) & _MASK
    h = ((h ^ (h >> 13)) * 0xC2B2AE35) & _MASK
    return h ^ (h >> 16)
