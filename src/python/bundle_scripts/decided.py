"""What an export decides of every train.py for torchrun; none of these lines is in a bundle."""

from typing import Any

import torch
from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy

HAS_TOKENS, IS_VIDEO = False, False  # a built-in language model, or a video model; else a model of the user's own
IS_SHARDED, IS_ON_HOST, IS_ZERO_1, IS_SPLIT, WRAPS_BLOCKS, WRAPS_LINEARS, ENCODES, DRAWS = (False,) * 8
ACCUMULATES, SYNCS_LAST, AUTOCASTS, CLIPS, HAS_SCHEDULE = (False,) * 5
OPTIMIZER: Any = torch.optim.AdamW
LOW = torch.bfloat16
OPTIONS: dict[str, Any] = {}
SHARDING: dict[str, Any] = dict(mp_policy=MixedPrecisionPolicy(), offload_policy=CPUOffloadPolicy())
BUCKETS: dict[str, Any] = {}
SIZES: tuple[int, ...] = (1,)
AXES: tuple[str, ...] = ("dp",)
DATA_RANK, DATA_RANKS, STEP_NUMBER, FORMAT = 0, 1, 1, ".6f"
