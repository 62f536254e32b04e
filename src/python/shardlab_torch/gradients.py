"""Clips gradients, and computes the norm of all gradients of a model that is divided over ranks."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import ProcessGroup
from torch.distributed.tensor import DTensor, Shard
from torch.distributed.tensor.placement_types import _StridedShard

from .layout import Layout
from .stages import Stages

# Source: torch.nn.utils.clip_grad_norm_, which divides by norm + 1e-6.
EPS = 1e-6
# If tensor parallelism has split a matrix, FSDP2's shard along the same dim is a strided shard.
SHARDS = (Shard, _StridedShard)


def clip_gradients(parameters: dict[str, nn.Parameter], layout: Layout, most: float | None, stages: Stages) -> float:
    """
    Scales gradients whose norm is above `most`; returns the norm before scaling. If the first and the last stage of a pipeline
    share a parameter, its gradient counts only on the first stage. Every rank of the run must call this function.
    """
    groups: dict[str, ProcessGroup] = {}
    sums: dict[tuple[str, ...], Tensor] = {}
    grads = []
    for name, parameter in parameters.items():
        grad = parameter.grad
        if grad is None:
            continue
        grads.append(local_of(grad))
        if name == stages.tied and layout.pp_rank > 0:
            continue
        over = [*sharding_groups(grad), *([layout.ep_group] if name in stages.expert_owners else [])]
        groups.update({group.group_name: group for group in over})
        key: tuple[str, ...] = tuple(group.group_name for group in over)
        square = torch.linalg.vector_norm(grads[-1], dtype=torch.float32).square()
        sums[key] = sums[key] + square if key in sums else square
    total = torch.zeros((), device=layout.world.device)
    for key, value in sums.items():
        own = value.to(layout.world.device)
        for group_name in key:
            dist.all_reduce(own, group=groups[group_name])
        total += own
    if layout.pp > 1:
        dist.all_reduce(total, group=layout.pp_group)
    norm = float(total.sqrt())
    scale = clip_scale(norm, most)
    if scale < 1:
        for grad in grads:
            grad.mul_(scale)
    return norm


def clip_scale(norm: float, most: float | None) -> float:
    """Returns the factor by which clipping multiplies gradients of this norm; 1 if the norm is within the limit."""
    return 1.0 if most is None else min(1.0, most / (norm + EPS))


def sharding_groups(grad: Tensor) -> list[ProcessGroup]:
    """Returns the groups over which a tensor is sharded."""
    if not isinstance(grad, DTensor):
        return []
    mesh = grad.device_mesh
    sharded = [axis for axis, each in enumerate(grad.placements) if isinstance(each, SHARDS)]
    return [mesh.get_group(axis) for axis in sharded if mesh.size(axis) > 1]


def place_gradients(parameters: dict[str, nn.Parameter]) -> None:
    """
    Gives gradients the placement of their parameters. If tensor parallelism has split an embedding, DTensor's backward makes the
    whole gradient on every rank.
    """
    for parameter in parameters.values():
        grad = parameter.grad
        if isinstance(grad, DTensor) and isinstance(parameter, DTensor) and grad.placements != parameter.placements:
            parameter.grad = grad.redistribute(placements=parameter.placements)


def share_tied_gradient(parameters: dict[str, nn.Parameter], layout: Layout, shared: str | None) -> None:
    """Sums the two gradients of the parameter that the first and the last stage of a pipeline share."""
    if shared is None or layout.tied_group is None or shared not in parameters:
        return
    grad = parameters[shared].grad
    if grad is not None:
        dist.all_reduce(local_of(grad), group=layout.tied_group)


def local_of(tensor: Tensor) -> Tensor:
    """Returns this rank's part of a tensor."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor
