"""Collectives with a backward: an all-to-all of rows, which backward runs in the other direction, and an all-gather."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import ProcessGroup

_OPS = torch.ops._c10d_functional

# The number of rows for each rank; None: every rank gets equally many rows.
Sizes = list[int] | None


def exchanged(x: Tensor, group: ProcessGroup, sent: Sizes = None, received: Sizes = None, scale: float = 1.0) -> Tensor:
    """
    Sends the first `sent[0]` rows of x to rank 0 of the group, the next `sent[1]` rows to rank 1, …; returns the received rows in
    the order of ranks. Gradients travel back and are multiplied by `scale`.
    """
    result: Tensor = _Exchange.apply(x, group, sent, received, scale)  # type: ignore[no-untyped-call]
    return result


def travelled(x: Tensor, group: ProcessGroup, sent: Sizes, received: Sizes) -> Tensor:
    """Exchanges rows as `exchanged` does, but without gradients."""
    rows = x.shape[0] if received is None else sum(received)
    result = x.new_empty(rows, *x.shape[1:])
    dist.all_to_all_single(result, x.contiguous(), received, sent, group=group)
    return result


def gathered(x: Tensor, group: ProcessGroup, dim: int) -> Tensor:
    """
    Returns the parts of all ranks, joined along a dim. Backward sums the gradients of all ranks, and returns the gradient of this
    rank's part.
    """
    result: Tensor = _Gather.apply(x, group, dim)  # type: ignore[no-untyped-call]
    return result


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, group: ProcessGroup, dim: int) -> Tensor:
        ctx.group, ctx.dim = group, dim
        rows = _OPS.wait_tensor(_OPS.all_gather_into_tensor(x.contiguous(), group.size(), group.group_name))
        return torch.cat(rows.chunk(group.size()), dim)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        size = ctx.group.size()
        rows = torch.cat(grads[0].chunk(size, ctx.dim))
        return _OPS.wait_tensor(_OPS.reduce_scatter_tensor(rows, "sum", size, ctx.group.group_name)), None, None


class _Exchange(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, group: ProcessGroup, sent: Sizes, received: Sizes, scale: float) -> Tensor:
        ctx.back = (group, received, sent)
        ctx.scale = scale
        return travelled(x, group, sent, received)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        grad = travelled(grads[0], *ctx.back)
        return (grad if ctx.scale == 1 else grad.mul_(ctx.scale)), None, None, None, None
