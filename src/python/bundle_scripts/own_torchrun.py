"""train.py of a user's own model, for torchrun, Slurm and Kubernetes: DDP, ZeroRedundancyOptimizer or fully_shard."""

import os
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.nn as nn
from torch.distributed.checkpoint.state_dict import get_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.optim.lr_scheduler import LambdaLR

from .common import ACCUMULATION, CLIP_NORM, HERE, STEPS, lr_factor, trained
from .own import RANKS, SEED, Batches, loaded_model
from .traced import loss_of

# Decided by an export.
IS_SHARDED, IS_ON_HOST, IS_ZERO_1, DRAWS = (False,) * 4
ACCUMULATES, SYNCS_LAST, AUTOCASTS, CLIPS, HAS_SCHEDULE = (False,) * 5
OPTIMIZER: Any = torch.optim.AdamW
LOW = torch.bfloat16
OPTIONS: dict[str, Any] = {}
SHARDING: dict[str, Any] = dict(mp_policy=MixedPrecisionPolicy(), offload_policy=CPUOffloadPolicy())
BUCKETS: dict[str, Any] = {}
SIZES: tuple[int, ...] = (1,)
AXES: tuple[str, ...] = ("dp",)
STEP_NUMBER = 1

UNITS: list[str] = []  # the modules that are sharded as units, inner modules first


def sharded_model(device):
    options = dict(mesh=init_device_mesh(device.type, SIZES, mesh_dim_names=AXES), **SHARDING)
    if IS_ON_HOST:
        model = loaded_model()
    else:
        model = loaded_model().to(device)
    for name in UNITS:
        fully_shard(model.get_submodule(name), **options)
    fully_shard(model, **options)
    return model


def main():
    cuda = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
    dist.init_process_group("cpu:gloo,cuda:nccl" if cuda else "gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    if world != RANKS:
        raise SystemExit(f"data/ has batches for {RANKS} ranks, not {world}")
    batches = Batches(rank, device)
    if IS_SHARDED:
        model = sharded_model(device)
    else:
        devices = [device] if cuda else None
        model = nn.parallel.DistributedDataParallel(loaded_model().to(device), device_ids=devices, **BUCKETS)
    if IS_ZERO_1:
        optimizer = ZeroRedundancyOptimizer(trained(model), optimizer_class=OPTIMIZER, **OPTIONS)
    else:
        optimizer = OPTIMIZER(trained(model), **OPTIONS)
    if HAS_SCHEDULE:
        scheduler = LambdaLR(optimizer, lr_factor)
    if DRAWS:
        torch.manual_seed(SEED + 1 + rank)  # random layers draw the numbers of the run from which this script was made
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
                        loss = loss_of(model, batches.read(step * ACCUMULATION + i))
                else:
                    loss = loss_of(model, batches.read(step * ACCUMULATION + i))
                (loss / ACCUMULATION).backward()
                total += loss.detach() / ACCUMULATION
        else:
            if AUTOCASTS:
                with torch.autocast(device.type, LOW):
                    loss = loss_of(model, batches.read(step))
            else:
                loss = loss_of(model, batches.read(step))
            loss.backward()
            total += loss.detach()
        if CLIPS:
            torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP_NORM)
        optimizer.step()
        if HAS_SCHEDULE:
            scheduler.step()
        optimizer.zero_grad()
        dist.all_reduce(total)
        if rank == 0:
            print(f"step {STEP_NUMBER} loss {total.item() / world:.8f}", flush=True)
    saving = dist.new_group(backend="gloo")  # its threads end with main(); threads of gloo may abort while Python exits
    if IS_SHARDED:
        dcp.save({"model": get_model_state_dict(model)}, checkpoint_id=os.path.join(HERE, "checkpoint"), process_group=saving)
    else:
        dcp.save({"model": model.module.state_dict()}, checkpoint_id=os.path.join(HERE, "checkpoint"), process_group=saving)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
