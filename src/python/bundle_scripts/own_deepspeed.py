"""train.py of a user's own model for DeepSpeed; the strategy and the optimizer are in ds_config.json."""

import os
from typing import Any

import deepspeed
import torch
import torch.distributed as dist
from torch.optim.lr_scheduler import LambdaLR

from .common import ACCUMULATION, HERE, STEPS, lr_factor, trained
from .own import RANKS, SEED, Batches, loaded_model
from .traced import loss_of

# Decided by an export.
ACCUMULATES, DRAWS = False, False
STEP_NUMBER = 1
SCHEDULER: Any = lambda optimizer: LambdaLR(optimizer, lr_factor)


def main():
    deepspeed.init_distributed()
    rank, world = dist.get_rank(), dist.get_world_size()
    if world != RANKS:
        raise SystemExit(f"data/ has batches for {RANKS} ranks, not {world}")
    model = loaded_model()
    engine, *_ = deepspeed.initialize(
        model=model,
        model_parameters=trained(model),
        config=os.path.join(HERE, "ds_config.json"),
        lr_scheduler=SCHEDULER,
    )
    batches = Batches(rank, engine.device)
    if DRAWS:
        torch.manual_seed(SEED + 1 + rank)  # random layers draw the numbers of the run from which this script was made
    for step in range(STEPS):
        total = torch.zeros((), device=engine.device)
        if ACCUMULATES:
            for i in range(ACCUMULATION):
                loss = loss_of(engine, batches.read(step * ACCUMULATION + i))
                engine.backward(loss)  # divides by ACCUMULATION
                engine.step()  # steps after the last microbatch
                total += loss.detach() / ACCUMULATION
        else:
            loss = loss_of(engine, batches.read(step))
            engine.backward(loss)
            engine.step()
            total += loss.detach()
        dist.all_reduce(total)
        if rank == 0:
            print(f"step {STEP_NUMBER} loss {total.item() / world:.8f}", flush=True)
    engine.save_checkpoint(os.path.join(HERE, "checkpoint"))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
