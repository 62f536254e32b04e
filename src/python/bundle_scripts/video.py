"""train.py of a video model, for torchrun, Slurm and Kubernetes: DDP, ZeroRedundancyOptimizer or fully_shard."""

import functools
import os
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.nn as nn
from safetensors.torch import load_file
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict, set_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.checkpoint import checkpoint

from shardlab_torch.dit import new_dit
from shardlab_torch.t5 import T5Encoder

from .common import ACCUMULATION, CLIP_NORM, FIRST_STEP, FREEZES, FROZEN, HERE, STEPS, lr_factor, trained, weights

# Decided by an export.
IS_SHARDED, IS_ON_HOST, IS_ZERO_1, HAS_EXPERTS, ENCODES, SHARDS_ENCODER, RECOMPUTES, WRAPS_BLOCKS, WRAPS_LINEARS = (False,) * 9
ACCUMULATES, SYNCS_LAST, AUTOCASTS, CLIPS, HAS_SCHEDULE = (False,) * 5
OPTIMIZER: Any = torch.optim.AdamW
LOW = torch.bfloat16
OPTIONS: dict[str, Any] = {}
SHARDING: dict[str, Any] = dict(mp_policy=MixedPrecisionPolicy(), offload_policy=CPUOffloadPolicy())
GATHERING: dict[str, Any] = {}
BUCKETS: dict[str, Any] = {}
SIZES: tuple[int, ...] = (1,)
AXES: tuple[str, ...] = ("dp",)
STEP_NUMBER, NTH = 1, 1

RANKS = 1  # data-parallel ranks, of which each has batches
SHAPE: dict[str, Any] = {}
ENCODER: dict[str, Any] = {}  # the sizes of the text encoder
PARTS = ("velocity", "latents", "timesteps", "text")


class Batches:
    """The stored microbatches of a rank: the velocity, then the model's inputs. The last one is followed by the first."""

    def __init__(self, rank, device):
        self.parts = [np.load(os.path.join(HERE, "data", f"{name}.npy"), mmap_mode="r")[rank] for name in PARTS]
        self.device = device

    def read(self, index):
        at = index % len(self.parts[0])
        return [torch.from_numpy(np.array(part[at])).to(self.device) for part in self.parts]


def inner(model):  # without DDP around it
    if IS_SHARDED:
        return model
    else:
        return model.module


def transformers(model):
    if HAS_EXPERTS:
        return [model.high_noise_model, model.low_noise_model]
    else:
        return [model]


def new_model():
    model: Any = new_dit(SHAPE)
    if FREEZES:
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(FROZEN.match(name) is None)
    if RECOMPUTES:
        for transformer in transformers(model):
            for block in [block for i, block in enumerate(transformer.blocks.values()) if i % NTH == 0]:
                block.forward = functools.partial(checkpoint, block.forward, use_reentrant=False)
    return model


def sharded_model(device):
    with torch.device("meta"):
        model = new_model()
    options = dict(mesh=init_device_mesh(device.type, SIZES, mesh_dim_names=AXES), **SHARDING)
    if WRAPS_BLOCKS:
        for transformer in transformers(model):
            for block in transformer.blocks.values():
                fully_shard(block, **options)
        if HAS_EXPERTS:
            for transformer in transformers(model):
                fully_shard(transformer, **options)
    elif WRAPS_LINEARS:
        for unit in [module for module in model.modules() if isinstance(module, nn.Linear)]:
            fully_shard(unit, **options)
    fully_shard(model, **options)
    if IS_ON_HOST:
        model.to_empty(device="cpu")
    else:
        model.to_empty(device=device)
    set_model_state_dict(model, weights(), options=StateDictOptions(full_state_dict=True))
    return model


def frozen_encoder(device):
    encoder = T5Encoder(ENCODER).requires_grad_(False).eval()
    state = load_file(os.path.join(HERE, "text_encoder.safetensors"))
    encoder.load_state_dict({name.removeprefix("text_encoder."): value for name, value in state.items()})
    if SHARDS_ENCODER:
        mesh = init_device_mesh(device.type, (dist.get_world_size(),))
        for unit in (*encoder.to(device).blocks, encoder):
            fully_shard(unit, mesh=mesh, **GATHERING)
    return encoder.to(device)


def encoded(encoder, tokens):
    """Encodes captions; token 0 is padding."""
    seen = (tokens != 0).float()
    with torch.no_grad():
        hidden = encoder(tokens, seen).float() * seen.unsqueeze(2)
    if SHARDS_ENCODER:
        for unit in [module for module in encoder.modules() if isinstance(module, FSDPModule)]:
            unit.reshard()
    return hidden


def loss_of(model, batch):
    """Returns the mean squared error of the velocity, noise minus video."""
    velocity, latents, timesteps, text, *audio = batch
    if HAS_EXPERTS:
        inner(model).choose(timesteps[0].item())  # before a strategy rounds it
    if AUTOCASTS:
        with torch.autocast(latents.device.type, LOW):
            output = model(latents, timesteps, text, *audio)
    else:
        output = model(latents, timesteps, text, *audio)
    return (output.float() - velocity).square().mean()


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
    if ENCODES:
        encoder = frozen_encoder(device)
    if IS_SHARDED:
        model = sharded_model(device)
    else:
        model = new_model()
        model.load_state_dict(weights())
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
        for i in range(ACCUMULATION):
            if SYNCS_LAST:
                if IS_SHARDED:
                    model.set_requires_gradient_sync(i == ACCUMULATION - 1)
                else:
                    model.require_backward_grad_sync = i == ACCUMULATION - 1
            batch = batches.read(step * ACCUMULATION + i)
            if ENCODES:
                batch[3] = encoded(encoder, batch[3])
            loss = loss_of(model, batch)
            (loss / ACCUMULATION).backward()
            total += loss.detach() / ACCUMULATION
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
