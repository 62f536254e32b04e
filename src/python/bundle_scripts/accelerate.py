"""train.py for Accelerate; the strategy is in the YAML files."""

import os
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.utils import GradScalerKwargs
from torch.optim.lr_scheduler import LambdaLR

from .common import ACCUMULATION, CLIP_NORM, FIRST_STEP, HERE, STEPS, FREEZES, FROZEN, lr_factor, read_batch, trained, weights
from .gpt import GPT

# Decided by an export.
ACCUMULATES, CLIPS, HAS_SCHEDULE = (False,) * 3
MODEL, OPTIMIZER, STEP_NUMBER = GPT, torch.optim.AdamW, 1
OPTIONS: dict[str, Any] = {}
ACCELERATOR: dict[str, Any] = dict(kwargs_handlers=[GradScalerKwargs()])


def main():
    accelerator = Accelerator(**ACCELERATOR)
    rank, world, device = accelerator.process_index, accelerator.num_processes, accelerator.device
    tokens = np.load(os.path.join(HERE, "data", "tokens.npy"), mmap_mode="r")  # [rank, microbatch, row, position]
    if tokens.shape[0] != world:
        raise SystemExit(f"data/tokens.npy has batches for {tokens.shape[0]} data-parallel ranks, not {world}")
    model = MODEL()
    model.load_state_dict(weights())
    if FREEZES:
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(FROZEN.match(name) is None)
    optimizer = OPTIMIZER(trained(model), **OPTIONS)
    if HAS_SCHEDULE:
        scheduler = LambdaLR(optimizer, lr_factor)
    model, optimizer = accelerator.prepare(model, optimizer)
    for step in range(STEPS):
        total = torch.zeros((), device=device)
        if ACCUMULATES:
            for i in range(ACCUMULATION):
                with accelerator.accumulate(model):
                    inputs, targets = read_batch(tokens, rank, step * ACCUMULATION + i, device)
                    loss = model(inputs, targets)
                    accelerator.backward(loss)  # divides by ACCUMULATION
                    if CLIPS:
                        if accelerator.sync_gradients:
                            accelerator.clip_grad_norm_(model.parameters(), CLIP_NORM)
                    optimizer.step()
                    optimizer.zero_grad()
                    total += loss.detach() / ACCUMULATION
        else:
            inputs, targets = read_batch(tokens, rank, step, device)
            loss = model(inputs, targets)
            accelerator.backward(loss)
            if CLIPS:
                accelerator.clip_grad_norm_(model.parameters(), CLIP_NORM)
            optimizer.step()
            optimizer.zero_grad()
            total += loss.detach()
        if HAS_SCHEDULE:
            scheduler.step()
        total = accelerator.reduce(total, reduction="mean")
        accelerator.print(f"step {STEP_NUMBER} loss {total.item():.6f}", flush=True)
    accelerator.save_state(os.path.join(HERE, "checkpoint"))
    accelerator.end_training()


if __name__ == "__main__":
    main()
