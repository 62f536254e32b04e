"""Makes PyTorch's warning about `find_unused_parameters` without an unused parameter in a place where nobody reads it."""

from __future__ import annotations

import functools
import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


@functools.cache
def spend_unused_warning(group: dist.ProcessGroup, device: torch.device) -> None:
    """
    Runs a model of one weight under DDP while stderr goes nowhere. PyTorch warns once per process (TORCH_WARN_ONCE in reducer.cpp) that no
    parameter was unused; a run cannot know this in advance, and its user cannot turn the flag off. Every rank of the group must call this.
    """
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        model = DistributedDataParallel(nn.Linear(1, 1, bias=False).to(device), process_group=group, find_unused_parameters=True)
        for _ in range(2):
            model(torch.zeros(1, 1, device=device)).sum().backward()
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
