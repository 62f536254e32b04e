"""The steps of each train.py for DeepSpeed; the strategy and the optimizer are in ds_config.json."""

import os
from typing import Any

import deepspeed
import numpy as np
import torch
import torch.distributed as dist
from torch.optim.lr_scheduler import LambdaLR

from .common import ACCUMULATION, FIRST_STEP, HERE, STEPS, loaded_model, lr_factor, read_batch, trained
from .gpt import read_outside
from .own import RANKS, SEED, Batches
from .traced import loss_of

# Decided by an export.
IS_OWN, ACCUMULATES, READS_OUTSIDE, DRAWS = (False,) * 4
STEP_NUMBER, FORMAT = 1, ".6f"
SCHEDULER: Any = lambda optimizer: LambdaLR(optimizer, lr_factor)


def main():
    deepspeed.init_distributed()
    rank, world = dist.get_rank(), dist.get_world_size()
    if IS_OWN:
        if world != RANKS:
            raise SystemExit(f"data/ has batches for {RANKS} ranks, not {world}")
    else:
        tokens = np.load(os.path.join(HERE, "data", "tokens.npy"), mmap_mode="r")  # [rank, microbatch, row, position]
        if tokens.shape[0] != world:
            raise SystemExit(f"data/tokens.npy has batches for {tokens.shape[0]} data-parallel ranks, not {world}")
    model = loaded_model()
    if READS_OUTSIDE:
        for parameter in read_outside(model):
            deepspeed.zero.register_external_parameter(model, parameter)
    engine, *_ = deepspeed.initialize(
        model=model,
        model_parameters=trained(model),
        config=os.path.join(HERE, "ds_config.json"),
        lr_scheduler=SCHEDULER,
    )
    if IS_OWN:
        batches = Batches(rank, engine.device)
    if DRAWS:
        torch.manual_seed(SEED + 1 + rank)  # random layers draw the numbers of the run from which this script was made
    for step in range(STEPS):
        total = torch.zeros((), device=engine.device)
        if ACCUMULATES:
            for i in range(ACCUMULATION):
                if IS_OWN:
                    loss = loss_of(engine, batches.read(step * ACCUMULATION + i))
                else:
                    inputs, targets = read_batch(tokens, rank, step * ACCUMULATION + i, engine.device)
                    loss = engine(inputs, targets)
                engine.backward(loss)  # divides by ACCUMULATION
                engine.step()  # steps after the last microbatch
                total += loss.detach() / ACCUMULATION
        else:
            if IS_OWN:
                loss = loss_of(engine, batches.read(step))
            else:
                inputs, targets = read_batch(tokens, rank, step, engine.device)
                loss = engine(inputs, targets)
            engine.backward(loss)
            engine.step()
            total += loss.detach()
        dist.all_reduce(total)
        if rank == 0:
            print(f"step {STEP_NUMBER} loss {total.item() / world:{FORMAT}}", flush=True)
    engine.save_checkpoint(os.path.join(HERE, "checkpoint"))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
