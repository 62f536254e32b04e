"""Attention, and the positions of a sequence that a rank has."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

# Shapes: q [B, H, T, D], k and v [B, G, T, D] → [B, H, T, D]. H / G consecutive heads of q share one head of k and v.
Attend = Callable[[Tensor, Tensor, Tensor], Tensor]
# A function that takes a tensor's number of rows and returns the positions of these rows, as ranges.
Positions = Callable[[int], Sequence[range]]


def causal_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Returns causal attention within a sequence that is whole on this rank. Shapes: as `Attend`."""
    k, v = (repeated(x, q.shape[1]) for x in (k, v))
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def attention_to_all(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Returns attention in which each position attends to all positions. Shapes: as `Attend`, with as many heads of k as of q."""
    return F.scaled_dot_product_attention(q, k, v)


def repeated(x: Tensor, heads: int) -> Tensor:
    """Returns x with each head repeated, so that x has `heads` heads. Shapes: [B, G, T, D] → [B, heads, T, D]."""
    times = heads // x.shape[1]
    return x if times == 1 else x.repeat_interleave(times, dim=1)


def from_begin(length: int) -> list[range]:
    """Returns the positions of a whole sequence."""
    return [range(length)]


def rows_at(table: Tensor, positions: Sequence[range], dim: int = 0) -> Tensor:
    """Returns the rows of a table at some positions, in their order."""
    parts = [table.narrow(dim, each.start, len(each)) for each in positions]
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim)
