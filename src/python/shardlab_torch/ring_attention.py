"""
Ring attention: keys and values travel from rank to rank, and each rank adds up its queries' attention to all keys and values.
Torch's ring attention (torch.distributed.tensor.experimental.context_parallel) has no kernel for CPUs. Source: Liu et al. 2023.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import ProcessGroup

from .attention import repeated

_FLASH = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
_FLASH_BACKWARD = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward


def ring_attention(q: Tensor, k: Tensor, v: Tensor, group: ProcessGroup, is_causal: bool = True) -> Tensor:
    """
    Returns attention to the positions of all ranks. With a causal mask, each rank has an early and a late chunk. Shapes: as
    `Attend`.
    """
    result: Tensor = _RingAttention.apply(q, k, v, group, is_causal)  # type: ignore[no-untyped-call]
    return result


class _RingAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, group: ProcessGroup, masks: bool) -> Tensor:
        own = torch.stack([k, v])
        out, lse = torch.zeros_like(q, dtype=torch.float32), q.new_full(q.shape[:3], float("-inf"), dtype=torch.float32)
        for source, kv in _parts(own, group):
            first, keys, values, is_causal = _block(q, kv, source, group, masks)
            part, part_lse = _FLASH(q[:, :, first:], keys, values, 0.0, is_causal)
            before = lse[:, :, first:]
            total = torch.logaddexp(before, part_lse)
            out[:, :, first:] *= (before - total).exp().unsqueeze(-1)
            out[:, :, first:] += part * (part_lse - total).exp().unsqueeze(-1)
            lse[:, :, first:] = total
        result = out.to(q.dtype)
        ctx.save_for_backward(q, own, result, lse)
        ctx.group, ctx.masks = group, masks
        return result

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        q, own, out, lse = ctx.saved_tensors
        group: ProcessGroup = ctx.group
        grad = grads[0].contiguous()
        dq = torch.zeros_like(q, dtype=torch.float32)
        # Sums of gradients travel one step behind their keys and values, and reach the rank of these keys after the last step.
        home, travelling = own, None
        for source, kv in _parts(own, group):
            first, keys, values, is_causal = _block(q, kv, source, group, ctx.masks)
            own_grad, own_q, own_out, own_lse = (x[:, :, first:] for x in (grad, q, out, lse))
            part, *shares = _FLASH_BACKWARD(own_grad, own_q, keys, values, own_out, own_lse.contiguous(), 0.0, is_causal)
            dq[:, :, first:] += part
            sums = torch.zeros_like(own, dtype=torch.float32)
            for total, share in zip(sums, shares, strict=True):
                total[:, :, : share.shape[2]] = share.unflatten(1, (total.shape[1], -1)).sum(2)
            if source == group.rank():
                home = sums
            else:
                travelling = _passed(sums if travelling is None else sums + travelling, group)
        dk, dv = home if travelling is None else home + travelling
        return dq.to(q.dtype), dk.to(q.dtype), dv.to(q.dtype), None, None


def _parts(own: Tensor, group: ProcessGroup) -> Iterator[tuple[int, Tensor]]:
    """Yields the index in the group, and the keys and values, of each rank; this rank comes first."""
    kv = own
    for step in range(group.size()):
        yield (group.rank() - step) % group.size(), kv
        if step + 1 < group.size():
            kv = _passed(kv, group)


def _passed(x: Tensor, group: ProcessGroup) -> Tensor:
    """Sends a tensor to the next rank; returns the tensor of the previous rank."""
    ranks = dist.get_process_group_ranks(group)
    result = torch.empty_like(x)
    work = dist.isend(x, ranks[(group.rank() + 1) % len(ranks)], group)
    dist.recv(result, ranks[group.rank() - 1], group)
    if work is not None:
        work.wait()
    return result


def _block(q: Tensor, kv: Tensor, source: int, group: ProcessGroup, masks: bool) -> tuple[int, Tensor, Tensor, bool]:
    """
    Returns the inputs of this rank's attention to the keys of rank `source`: the index of the first query, the keys and values,
    and whether a causal mask applies. Without `masks`, all queries attend to all keys. With it, all queries attend to the early
    chunk of an earlier rank, and only the late chunk of queries attends to the keys of a later rank.
    """
    half = q.shape[2] // 2
    first, length = 0, kv.shape[3]
    if masks and source < group.rank():
        length = half
    elif masks and source > group.rank():
        first = half
    keys, values = (repeated(x[:, :, :length], q.shape[1]) for x in kv)
    return first, keys, values, masks and source == group.rank()
