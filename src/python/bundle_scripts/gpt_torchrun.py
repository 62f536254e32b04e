"""Parts of train.py of a built-in language model for torchrun: fully_shard, and tensor parallelism."""

from typing import Any

import torch
import torch.nn as nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, set_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, ParallelStyle, RowwiseParallel, parallelize_module
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

from .common import CLIP_NORM, FREEZES, FROZEN, MODEL, weights
from .decided import AXES, IS_ON_HOST, IS_SPLIT, SHARDING, SIZES, WRAPS_BLOCKS, WRAPS_LINEARS
from .gpt import COLUMNS, DIM, ROWS, blocks

# Decided by an export.
IS_HYBRID, SPLITS_QKV = False, False

TP = 1


def data_part(mesh):
    if IS_HYBRID:
        return mesh["dp_replicate", "dp_shard"]
    else:
        return mesh["dp"]


def sharded_model(device):
    with torch.device("meta"):
        model = MODEL()
    if FREEZES:
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(FROZEN.match(name) is None)
    if IS_SPLIT:
        mesh = init_device_mesh(device.type, SIZES, mesh_dim_names=AXES)
        plan: dict[str, ParallelStyle] = {name: ColwiseParallel() for name in COLUMNS}
        plan |= {name: RowwiseParallel() for name in ROWS}
        parallelize_module(model, mesh["tp"], plan)
        options = dict(mesh=data_part(mesh), **SHARDING)
    else:
        options = dict(mesh=init_device_mesh(device.type, SIZES, mesh_dim_names=AXES), **SHARDING)
    if WRAPS_BLOCKS:
        for unit in blocks(model):
            fully_shard(unit, **options)
    elif WRAPS_LINEARS:
        for unit in [module for module in model.modules() if isinstance(module, nn.Linear)]:
            fully_shard(unit, **options)
    fully_shard(model, **options)
    if IS_ON_HOST:
        model.to_empty(device="cpu")
    else:
        model.to_empty(device=device)
    if SPLITS_QKV:
        state = weights()
        for name in [name for name in state if ".qkv." in name]:
            # Each rank gets the rows of its own heads: of q, k and v.
            rest = state[name].shape[1:]
            state[name] = state[name].view(3, TP, DIM // TP, *rest).transpose(0, 1).reshape(3 * DIM, *rest)
        set_model_state_dict(model, state, options=StateDictOptions(full_state_dict=True))
    else:
        set_model_state_dict(model, weights(), options=StateDictOptions(full_state_dict=True))
    return model


def clip(model):
    """Scales gradients to a norm of at most CLIP_NORM; split and whole matrices are on different meshes."""
    meshes: dict[Any, list[Any]] = {}
    for parameter in model.parameters():
        if parameter.grad is not None:
            meshes.setdefault(parameter.grad.device_mesh, []).append(parameter)
    norms: list[Any] = [get_total_norm([p.grad for p in group]) for group in meshes.values()]
    norm = torch.linalg.vector_norm(torch.stack([one.full_tensor() for one in norms]))
    for group in meshes.values():
        clip_grads_with_norm_(group, CLIP_NORM, norm)
