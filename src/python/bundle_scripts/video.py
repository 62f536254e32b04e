"""Parts of train.py of a video model for torchrun: its batches, the model with its text encoder, and the loss."""

import functools
import os
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
import torch.nn as nn
from safetensors.torch import load_file
from torch.distributed.checkpoint.state_dict import StateDictOptions, set_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.utils.checkpoint import checkpoint

from shardlab_torch.dit import new_dit
from shardlab_torch.t5 import T5Encoder

from .common import FREEZES, FROZEN, HERE, weights
from .decided import AUTOCASTS, AXES, IS_ON_HOST, IS_SHARDED, LOW, SHARDING, SIZES, WRAPS_BLOCKS, WRAPS_LINEARS

# Decided by an export.
HAS_EXPERTS, SHARDS_ENCODER, RECOMPUTES = False, False, False
GATHERING: dict[str, Any] = {}
NTH = 1

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
