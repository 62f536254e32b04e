"""Makes PyTorch's warning about `find_unused_parameters` without an unused parameter in a place where nobody reads it."""

from __future__ import annotations

import functools
import warnings

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


@functools.cache
def spend_unused_warning(group: dist.ProcessGroup, device: torch.device) -> None:
    """
    Runs a model of one weight under DDP. PyTorch warns once per process (TORCH_WARN_ONCE in reducer.cpp) that no parameter was unused; a
    run cannot know this in advance, and its user cannot turn the flag off. Every rank of the group must call this.
    """

    def forward(_: float) -> float:
        model = DistributedDataParallel(nn.Linear(1, 1, bias=False).to(device), process_group=group, find_unused_parameters=True)
        model(torch.zeros(1, 1, device=device))
        return 0.0

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="find_unused_parameters=True was specified")
        # The reducer writes its warning to stderr, unless a call of torch from Python, such as this one, is around it.
        torch.zeros(1).apply_(forward)
