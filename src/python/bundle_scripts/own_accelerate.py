"""train.py of a user's own model for Accelerate; the strategy is in the YAML files."""

import os
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import DistributedDataParallelKwargs, GradScalerKwargs
from torch.optim.lr_scheduler import LambdaLR

from .common import ACCUMULATION, CLIP_NORM, HERE, STEPS, lr_factor, trained
from .own import RANKS, SEED, Batches, loaded_model
from .traced import loss_of

# Decided by an export.
ACCUMULATES, CLIPS, HAS_SCHEDULE, DRAWS = (False,) * 4
OPTIMIZER, STEP_NUMBER = torch.optim.AdamW, 1
OPTIONS: dict[str, Any] = {}
ACCELERATOR: dict[str, Any] = dict(kwargs_handlers=[GradScalerKwargs(), DistributedDataParallelKwargs()])


def main():
    accelerator = Accelerator(**ACCELERATOR)
    rank, world, device = accelerator.process_index, accelerator.num_processes, accelerator.device
    if world != RANKS:
        raise SystemExit(f"data/ has batches for {RANKS} ranks, not {world}")
    batches = Batches(rank, device)
    model = loaded_model()
    optimizer = OPTIMIZER(trained(model), **OPTIONS)
    if HAS_SCHEDULE:
        scheduler = LambdaLR(optimizer, lr_factor)
    model, optimizer = accelerator.prepare(model, optimizer)
    if DRAWS:
        torch.manual_seed(SEED + 1 + rank)  # random layers draw the numbers of the run from which this script was made
    for step in range(STEPS):
        total = torch.zeros((), device=device)
        if ACCUMULATES:
            for i in range(ACCUMULATION):
                with accelerator.accumulate(model):
                    loss = loss_of(model, batches.read(step * ACCUMULATION + i))
                    accelerator.backward(loss)  # divides by ACCUMULATION
                    if CLIPS:
                        if accelerator.sync_gradients:
                            accelerator.clip_grad_norm_(model.parameters(), CLIP_NORM)
                    optimizer.step()
                    optimizer.zero_grad()
                    total += loss.detach() / ACCUMULATION
        else:
            loss = loss_of(model, batches.read(step))
            accelerator.backward(loss)
            if CLIPS:
                accelerator.clip_grad_norm_(model.parameters(), CLIP_NORM)
            optimizer.step()
            optimizer.zero_grad()
            total += loss.detach()
        if HAS_SCHEDULE:
            scheduler.step()
        total = accelerator.reduce(total, reduction="mean")
        accelerator.print(f"step {STEP_NUMBER} loss {total.item():.8f}", flush=True)
    accelerator.save_state(os.path.join(HERE, "checkpoint"))
    accelerator.end_training()


if __name__ == "__main__":
    main()
