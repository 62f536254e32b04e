"""Writes own_model_reference.json: torch's losses of a module of two layers, alone and under DDP and fully_shard, at worlds 1, 2, 4.

Parameter p, in the order of the module, has scattered values (model_reference.py) in [-0.5, 0.5); step s has 8 rows of inputs and
targets in [-2, 2), of which each rank takes its part in order. AdamW with torch's defaults but lr 0.01. Losses of a wrapped
model are the mean over ranks; without a wrapper every rank trains for itself, and has its own.

    python test/data/own_model_reference.py
"""

import json
import os
import re
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

HERE = os.path.dirname(os.path.abspath(__file__))
STEPS = 12
ROWS = 8


def scattered(count, number, size=1.0):
    """Element i is size times a hash of i and number, less a half: as in model_reference.py."""
    values = []
    for i in range(count):
        h = ((i * 7919 + number * 104729 + 17) * 2654435761) % 2**32
        h = ((h ^ (h >> 15)) * 2654435761) % 2**32
        values.append(size * (h / 2**32 - 0.5))
    return torch.tensor(values)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a = torch.nn.Linear(7, 13)
        self.b = torch.nn.Linear(13, 1)

    def forward(self, x):
        return self.b(torch.relu(self.a(x)))


def wrapped(model, how):
    if how == "ddp":
        return DistributedDataParallel(model)
    if how == "fullyShard":
        for part in (model.a, model.b, model):
            fully_shard(part)
    return model


def losses(how, rank, world):
    model = Net()
    with torch.no_grad():
        for place, parameter in enumerate(model.parameters()):
            parameter.copy_(scattered(parameter.numel(), place).reshape(parameter.shape))
    model = wrapped(model, how)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    found = []
    for step in range(STEPS):
        x = scattered(ROWS * 7, 100 + 2 * step, 4.0).reshape(ROWS, 7).chunk(world)[rank]
        y = scattered(ROWS, 101 + 2 * step, 4.0).reshape(ROWS, 1).chunk(world)[rank]
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        loss = loss.detach()
        if how != "none":
            dist.all_reduce(loss)
            loss /= world
        found.append(float(f"{loss.item():.9g}"))
    return found


def work(rank, world, folder):
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=world)
    found = {how: losses(how, rank, world) for how in ("none", "ddp", "fullyShard")}
    with open(f"{folder}/{rank}.json", "w") as file:
        json.dump(found, file)
    dist.destroy_process_group()


def main():
    recorded = {}
    for world in (1, 2, 4):
        with tempfile.TemporaryDirectory() as folder:
            mp.spawn(work, args=(world, folder), nprocs=world)
            ranks = [json.load(open(f"{folder}/{rank}.json")) for rank in range(world)]
        recorded[str(world)] = {how: [rank[how] for rank in ranks] for how in ranks[0]}
    with open(os.path.join(HERE, "own_model_reference.json"), "w") as file:
        made_by = f"test/data/own_model_reference.py, torch {torch.__version__}"
        indented = json.dumps({"made_by": made_by, "losses": recorded}, indent=1)
        file.write(re.sub(r"\[[^\[\]{}]*\]", on_one_line, indented) + "\n")


def on_one_line(array):
    return "[" + " ".join(array.group()[1:-1].split()) + "]"


if __name__ == "__main__":
    main()
