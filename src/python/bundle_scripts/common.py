"""Parts of every train.py: constants of the training, batches, the model with its weights, and the schedule of the learning rate."""

import math
import os
import re
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file

# Decided by an export, with the numbers below them.
IS_CONTINUED, FREEZES, WARMS_UP, IS_STEPWISE, IS_EXPONENTIAL, FALLS, HAS_LEAST, IS_COSINE, IS_LINEAR = (False,) * 9
HAS_TIES = False
MODEL: Any = torch.nn.Module
ARGUMENTS: dict[str, Any] = {}
WARMUP_STEPS, FALL_START, FALL_STEPS, LEAST, GAMMA, STEP_SIZE = 1, 0, 20, 0.0, 0.1, 30

HERE = os.path.dirname(os.path.abspath(__file__))
STEPS, ACCUMULATION = 20, 1
FIRST_STEP = 0  # steps that the weights have been trained for
CLIP_NORM = 1.0
FROZEN = re.compile("")
TIES: dict[str, str] = {}  # second names of parameters, and the names under which the weights have them


def read_batch(tokens, rank, index, device):  # the last batch is followed by the first
    ids = torch.from_numpy(tokens[rank, index % tokens.shape[1]].astype(np.int64)).to(device)
    return ids[:, :-1], ids[:, 1:]


def weights() -> Any:
    return load_file(os.path.join(HERE, "model.safetensors"))


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


def trained(model):
    if FREEZES:
        return [p for p in model.parameters() if p.requires_grad]
    else:
        return model.parameters()


def lr_factor(t):  # after t steps
    if IS_CONTINUED:
        t += FIRST_STEP
    if WARMS_UP:
        if t < WARMUP_STEPS:
            return (t + 1) / WARMUP_STEPS
    if IS_STEPWISE:
        return GAMMA ** ((t - WARMUP_STEPS) // STEP_SIZE)
    elif IS_EXPONENTIAL:
        return GAMMA ** (t - WARMUP_STEPS)
    elif FALLS:
        x = min(1.0, max(0.0, (t - FALL_START) / FALL_STEPS))
        if HAS_LEAST:
            if IS_COSINE:
                return LEAST + (1 - LEAST) * (0.5 * (1 + math.cos(math.pi * x)))
            elif IS_LINEAR:
                return LEAST + (1 - LEAST) * (1 - x)
            else:
                return LEAST + (1 - LEAST) * (1 - math.sqrt(x))
        elif IS_COSINE:
            return 0.5 * (1 + math.cos(math.pi * x))
        elif IS_LINEAR:
            return 1 - x
        else:
            return 1 - math.sqrt(x)
    else:
        return 1.0
