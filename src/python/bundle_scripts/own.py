"""Parts of every train.py of a user's own model: its batches, and the model with its weights."""

import os
from typing import Any

import torch
from safetensors import safe_open

from .common import FREEZES, FROZEN, HERE, weights
from .traced import Net

# Decided by an export.
HAS_TIES, WIDENS = False, False
MODEL: Any = Net
ARGUMENTS: dict[str, Any] = {}

SEED = 1  # the run's seed
RANKS, BATCHES = 1, 20  # data-parallel ranks, and microbatches of each
TIES: dict[str, str] = {}  # second names of parameters, and the names under which the weights have them


class Batches:
    """The stored microbatches of a rank; the last one is followed by the first."""

    def __init__(self, rank, device):
        self.file = safe_open(os.path.join(HERE, "data", f"rank-{rank}.safetensors"), "pt")
        self.names = [name[2:] for name in self.file.keys() if name.startswith("0.")]
        self.device = device

    def read(self, index):
        tensors = {name: self.file.get_tensor(f"{index % BATCHES}.{name}").to(self.device) for name in self.names}
        if WIDENS:
            return {name: x.long() if x.dtype == torch.int32 else x for name, x in tensors.items()}
        else:
            return tensors


def loaded_model():
    model = MODEL(**ARGUMENTS)
    state = weights()
    if HAS_TIES:
        state |= {second: state[first] for second, first in TIES.items()}
    model.load_state_dict(state)
    if FREEZES:
        for name, parameter in model.named_parameters():
            if FROZEN.match(name):
                parameter.requires_grad_(False)
    return model
