"""Packed sequences: a row has several documents one after the other, and each document attends only to itself."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from .attention import causal_attention, from_begin


class Packing:
    """Computes attention and positions per document. Shapes: q [1, H, T, D], k and v [1, G, T, D]; T is the sum of lengths."""

    def __init__(self) -> None:
        self._lengths: list[int] | None = None

    def apply(self, model: nn.Module) -> None:
        """Makes a model, or a stage of it, take packed rows."""
        for module in model.modules():
            if hasattr(module, "attend"):
                module.attend = self._attend  # type: ignore[assignment]
            if hasattr(module, "positions"):
                module.positions = self._positions  # type: ignore[assignment]

    @contextlib.contextmanager
    def documents(self, lengths: list[int] | None) -> Iterator[None]:
        """Within the context, the model's input is a row of documents of these lengths; None: each row is one sequence."""
        self._lengths = lengths
        try:
            yield
        finally:
            self._lengths = None

    def _positions(self, length: int) -> list[range]:
        return from_begin(length) if self._lengths is None else [range(each) for each in self._lengths]

    def _attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        if self._lengths is None:
            return causal_attention(q, k, v)
        parts = zip(*(torch.split(x, self._lengths, dim=2) for x in (q, k, v)), strict=True)
        return torch.cat([causal_attention(*part) for part in parts], dim=2)
