"""The start, the steps and the checkpoint of each train.py for torchrun: DDP, ZeroRedundancyOptimizer or fully_shard."""

import os

import numpy as np
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.nn as nn
from torch.distributed.checkpoint.state_dict import get_model_state_dict
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.optim.lr_scheduler import LambdaLR

from .common import ACCUMULATION, CLIP_NORM, FIRST_STEP, HERE, STEPS, loaded_model, lr_factor, read_batch, trained, weights
from .decided import (
    ACCUMULATES, AUTOCASTS, BUCKETS, CLIPS, DATA_RANK, DATA_RANKS, DRAWS, ENCODES, FORMAT, HAS_SCHEDULE, HAS_TOKENS, IS_SHARDED, IS_SPLIT,
    IS_VIDEO, IS_ZERO_1, LOW, OPTIMIZER, OPTIONS, STEP_NUMBER, SYNCS_LAST,
)
from .gpt_torchrun import clip
from .own import RANKS, SEED, Batches
from .own_torchrun import sharded_model
from .traced import loss_of
from .video import encoded, frozen_encoder, new_model


def main():
    cuda = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
    dist.init_process_group("cpu:gloo,cuda:nccl" if cuda else "gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    if HAS_TOKENS:
        tokens = np.load(os.path.join(HERE, "data", "tokens.npy"), mmap_mode="r")  # [rank, microbatch, row, position]
        if tokens.shape[0] != DATA_RANKS:
            raise SystemExit(f"data/tokens.npy has batches for {tokens.shape[0]} data-parallel ranks, not {DATA_RANKS}")
    else:
        if world != RANKS:
            raise SystemExit(f"data/ has batches for {RANKS} ranks, not {world}")
        batches = Batches(rank, device)
    if ENCODES:
        encoder = frozen_encoder(device)
    if IS_SHARDED:
        model = sharded_model(device)
    else:
        if IS_VIDEO:
            model = new_model()
            model.load_state_dict(weights())
        else:
            model = loaded_model()
        devices = [device] if cuda else None
        model = nn.parallel.DistributedDataParallel(model.to(device), device_ids=devices, **BUCKETS)
    if IS_ZERO_1:
        optimizer = ZeroRedundancyOptimizer(trained(model), optimizer_class=OPTIMIZER, **OPTIONS)
    else:
        optimizer = OPTIMIZER(trained(model), **OPTIONS)
    if HAS_SCHEDULE:
        scheduler = LambdaLR(optimizer, lr_factor)
    if DRAWS:
        torch.manual_seed(SEED + 1 + rank)  # random layers draw the numbers of the run from which this script was made
    for step in range(STEPS):
        total = torch.zeros((), device=device)
        if ACCUMULATES:
            for i in range(ACCUMULATION):
                if SYNCS_LAST:
                    if IS_SHARDED:
                        model.set_requires_gradient_sync(i == ACCUMULATION - 1)
                    else:
                        model.require_backward_grad_sync = i == ACCUMULATION - 1
                if IS_VIDEO:
                    batch = batches.read(step * ACCUMULATION + i)
                    if ENCODES:
                        batch[3] = encoded(encoder, batch[3])
                    loss = loss_of(model, batch)
                elif AUTOCASTS:
                    with torch.autocast(device.type, LOW):
                        if HAS_TOKENS:
                            loss = model(*read_batch(tokens, DATA_RANK, step * ACCUMULATION + i, device))
                        else:
                            loss = loss_of(model, batches.read(step * ACCUMULATION + i))
                elif HAS_TOKENS:
                    loss = model(*read_batch(tokens, DATA_RANK, step * ACCUMULATION + i, device))
                else:
                    loss = loss_of(model, batches.read(step * ACCUMULATION + i))
                (loss / ACCUMULATION).backward()
                total += loss.detach() / ACCUMULATION
        else:
            if AUTOCASTS:
                with torch.autocast(device.type, LOW):
                    if HAS_TOKENS:
                        loss = model(*read_batch(tokens, DATA_RANK, step, device))
                    else:
                        loss = loss_of(model, batches.read(step))
            elif HAS_TOKENS:
                loss = model(*read_batch(tokens, DATA_RANK, step, device))
            else:
                loss = loss_of(model, batches.read(step))
            loss.backward()
            total += loss.detach()
        if CLIPS:
            if IS_SPLIT:
                clip(model)
            else:
                torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP_NORM)
        optimizer.step()
        if HAS_SCHEDULE:
            scheduler.step()
        optimizer.zero_grad()
        dist.all_reduce(total)
        if rank == 0:
            print(f"step {STEP_NUMBER} loss {total.item() / world:{FORMAT}}", flush=True)
    saving = dist.new_group(backend="gloo")  # its threads end with main(); threads of gloo may abort while Python exits
    if IS_SHARDED:
        dcp.save({"model": get_model_state_dict(model)}, checkpoint_id=os.path.join(HERE, "checkpoint"), process_group=saving)
    else:
        dcp.save({"model": model.module.state_dict()}, checkpoint_id=os.path.join(HERE, "checkpoint"), process_group=saving)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
