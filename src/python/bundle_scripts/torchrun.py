"""train.py for torchrun, Slurm and Kubernetes: DDP, ZeroRedundancyOptimizer or fully_shard."""

import os
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.nn as nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict, set_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.tensor.parallel import ColwiseParallel, ParallelStyle, RowwiseParallel, parallelize_module
from torch.nn.utils import clip_grads_with_norm_, get_total_norm
from torch.optim.lr_scheduler import LambdaLR

from .common import ACCUMULATION, CLIP_NORM, FIRST_STEP, HERE, STEPS, FREEZES, FROZEN, lr_factor, read_batch, trained, weights
from .gpt import COLUMNS, DIM, GPT, ROWS, blocks

# Decided by an export.
IS_SHARDED, IS_HYBRID, IS_SPLIT, SPLITS_QKV, WRAPS_BLOCKS, WRAPS_LINEARS, IS_ON_HOST, IS_ZERO_1 = (False,) * 8
ACCUMULATES, SYNCS_LAST, AUTOCASTS, CLIPS, HAS_SCHEDULE = (False,) * 5
MODEL: Any = GPT
OPTIMIZER: Any = torch.optim.AdamW
LOW = torch.bfloat16
OPTIONS: dict[str, Any] = {}
SHARDING: dict[str, Any] = dict(mp_policy=MixedPrecisionPolicy(), offload_policy=CPUOffloadPolicy())
BUCKETS: dict[str, Any] = {}
SIZES: tuple[int, ...] = (1,)
AXES: tuple[str, ...] = ("dp",)
DATA_RANK, DATA_RANKS, STEP_NUMBER = 0, 1, 1

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


def main():
    cuda = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
    dist.init_process_group("cpu:gloo,cuda:nccl" if cuda else "gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    tokens = np.load(os.path.join(HERE, "data", "tokens.npy"), mmap_mode="r")  # [rank, microbatch, row, position]
    if tokens.shape[0] != DATA_RANKS:
        raise SystemExit(f"data/tokens.npy has batches for {tokens.shape[0]} data-parallel ranks, not {DATA_RANKS}")
    if IS_SHARDED:
        model = sharded_model(device)
    else:
        model = MODEL()
        model.load_state_dict(weights())
        if FREEZES:
            for name, parameter in model.named_parameters():
                parameter.requires_grad_(FROZEN.match(name) is None)
        devices = [device] if cuda else None
        model = nn.parallel.DistributedDataParallel(model.to(device), device_ids=devices, **BUCKETS)
    if IS_ZERO_1:
        optimizer = ZeroRedundancyOptimizer(trained(model), optimizer_class=OPTIMIZER, **OPTIONS)
    else:
        optimizer = OPTIMIZER(trained(model), **OPTIONS)
    if HAS_SCHEDULE:
        scheduler = LambdaLR(optimizer, lr_factor)
    for step in range(STEPS):
        total = torch.zeros((), device=device)
        if ACCUMULATES:
            for i in range(ACCUMULATION):
                if SYNCS_LAST:
                    if IS_SHARDED:
                        model.set_requires_gradient_sync(i == ACCUMULATION - 1)
                    else:
                        model.require_backward_grad_sync = i == ACCUMULATION - 1
                if AUTOCASTS:
                    with torch.autocast(device.type, LOW):
                        loss = model(*read_batch(tokens, DATA_RANK, step * ACCUMULATION + i, device))
                else:
                    loss = model(*read_batch(tokens, DATA_RANK, step * ACCUMULATION + i, device))
                (loss / ACCUMULATION).backward()
                total += loss.detach() / ACCUMULATION
        else:
            if AUTOCASTS:
                with torch.autocast(device.type, LOW):
                    loss = model(*read_batch(tokens, DATA_RANK, step, device))
            else:
                loss = model(*read_batch(tokens, DATA_RANK, step, device))
            loss.backward()
            total += loss.detach()
        if CLIPS:
            if IS_SPLIT:
                clip(model)
            else:
                torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP_NORM)
        optimizer.step()
        if HAS_SCHEDULE:
            scheduler.step()
        optimizer.zero_grad()
        dist.all_reduce(total)
        if rank == 0:
            print(f"step {STEP_NUMBER} loss {total.item() / world:.6f}", flush=True)
    saving = dist.new_group(backend="gloo")  # its threads end with main(); threads of gloo may abort while Python exits
    if IS_SHARDED:
        dcp.save({"model": get_model_state_dict(model)}, checkpoint_id=os.path.join(HERE, "checkpoint"), process_group=saving)
    else:
        dcp.save({"model": model.module.state_dict()}, checkpoint_id=os.path.join(HERE, "checkpoint"), process_group=saving)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
