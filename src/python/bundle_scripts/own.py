"""The batches of every train.py of a user's own model."""

import os

import torch
from safetensors import safe_open

from .common import HERE

# Decided by an export.
WIDENS = False

SEED = 1  # the run's seed
RANKS, BATCHES = 1, 20  # data-parallel ranks, and microbatches of each


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
