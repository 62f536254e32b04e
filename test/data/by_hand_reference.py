"""Writes by_hand_reference.json: what torch does with gradients, frozen and shared parameters that a program changes by hand.

Needs torch 2.13 (gloo on CPU). Two ranks with different rows. Each case is the parameters after each step, on rank 0; FSDP is
called with use_orig_params=True. Floats are rounded to eight digits.

    python test/data/by_hand_reference.py
"""

import json
import os
import re

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel as DDP

HERE = os.path.dirname(os.path.abspath(__file__))


def fill(module):
    with torch.no_grad():
        for i, parameter in enumerate(module.parameters()):
            n = torch.arange(parameter.numel(), dtype=torch.float64)
            parameter.copy_((0.5 * torch.sin(n + i)).float().reshape(parameter.shape))
    return module


class Layers(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 4)
        self.c = nn.Linear(4, 1)

    def forward(self, x):
        return self.c(torch.tanh(self.b(torch.tanh(self.a(x))))).mean()


class Block(nn.Module):
    """A block whose second layer is the same module in all blocks."""

    def __init__(self, shared):
        super().__init__()
        self.own = nn.Linear(4, 4)
        self.shared = shared

    def forward(self, x):
        return torch.tanh(self.shared(torch.tanh(self.own(x))))


class Shared(nn.Module):
    def __init__(self):
        super().__init__()
        shared = nn.Linear(4, 4)
        self.blocks = nn.ModuleList([Block(shared) for _ in range(3)])

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x.mean()


def rows(step, rank):
    return torch.cos(torch.arange(8, dtype=torch.float64) + 8 * (2 * step + rank)).float().reshape(2, 4)


def numbers(tensor):
    whole = tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor
    return [float(f"{v:.8g}") for v in whole.detach().double().flatten().tolist()]


def values_of(module):
    return {name: numbers(p) for name, p in module.named_parameters()}


def wrapped(module, how):
    if how == "fullyShard":
        return fully_shard(module)
    if how == "FSDP":
        return FSDP(module, device_id=torch.device("cpu"), use_orig_params=True)
    if how == "DDP":
        return DDP(module, find_unused_parameters=True)
    return module


def values_in(module, how):
    if how != "FSDP":
        return values_of(module)
    with FSDP.summon_full_params(module):
        return {name: numbers(p) for name, p in module.module.named_parameters()}


def gradients_by_hand(how, rank):
    """a is scaled; b is dropped in steps 0 and 1 and set to ones in step 2; c.weight is set and a.bias dropped between two backwards in step 3."""
    module = fill(Layers())
    model = wrapped(module, how)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05, weight_decay=0.5)
    found = []
    for step in range(4):
        optimizer.zero_grad()
        model(rows(step, rank)).backward()
        named = dict(module.named_parameters())
        for name, p in named.items():
            if p.grad is None:  # FSDP's flat parameter has no elements of it on this rank
                continue
            if name.startswith("a."):
                p.grad = p.grad * 0.5
            elif name.startswith("b.") and step < 2:
                p.grad = None
            elif name.startswith("b.") and step == 2:
                p.grad = torch.ones_like(p.grad)
        if step == 3 and how != "FSDP":
            named["c.weight"].grad = torch.ones_like(named["c.weight"].grad)
            named["a.bias"].grad = None
            model(rows(step + 1, rank)).backward()
        optimizer.step()
        found.append(values_in(model if how == "FSDP" else module, how))
    return found


def unfreezing(optim, how, rank, freezes_later=False):
    """a and b.bias are frozen in steps 0 and 1, and trained from step 2 on; b.bias again frozen in step 4."""
    module = fill(Layers())
    frozen = [module.a.weight, module.a.bias, module.b.bias]

    def train(parameters, on):
        for parameter in parameters:
            parameter.requires_grad = on

    if not freezes_later:
        train(frozen, False)
    model = wrapped(module, how)
    if freezes_later:
        train(frozen, False)
    classes = {"adamW": torch.optim.AdamW, "adam": torch.optim.Adam, "sgd": torch.optim.SGD}
    options = {"momentum": 0.9} if optim == "sgd" else {"weight_decay": 0.5}
    optimizer = classes[optim](model.parameters(), lr=0.05, **options)
    found = []
    for step in range(6):
        if step == 2:
            train(frozen, True)
        if step in (4, 5):
            train([module.b.bias], step == 5)
        optimizer.zero_grad()
        model(rows(step, rank)).backward()
        optimizer.step()
        found.append(values_of(module))
    return found


def freezing_between():
    """a is frozen after the backward of step 0, before its update, and trained again from step 2 on."""
    module = fill(Layers())
    optimizer = torch.optim.AdamW(module.parameters(), lr=0.05, weight_decay=0.5)
    found = []
    for step in range(4):
        optimizer.zero_grad()
        if step == 2:
            module.a.requires_grad_(True)
        module(rows(step, 0)).backward()
        if step == 0:
            module.a.requires_grad_(False)
        optimizer.step()
        found.append(values_of(module))
    return found


def sharing(how, rank):
    """One Linear in three blocks; the losses are means over the ranks."""
    module = fill(Shared())
    model = wrapped(module, how)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05, weight_decay=0.5)
    found, losses = [], []
    for step in range(3):
        optimizer.zero_grad()
        loss = model(rows(step, rank))
        loss.backward()
        optimizer.step()
        found.append(values_of(module))
        mean = loss.detach() / 2
        dist.all_reduce(mean)
        losses.append(float(f"{mean.item():.8g}"))
    return {"values": found, "losses": losses}


def clipping(rank, numbers_of):
    """The norms of both ranks, and rank 0's parameters after a step; b is ignored. `numbers_of` says whose rows a rank has."""
    module = fill(Layers())
    model = FSDP(module, device_id=torch.device("cpu"), use_orig_params=True, ignored_modules=[module.b])
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    model(rows(0, numbers_of[rank])).backward()
    norm = model.clip_grad_norm_(0.1)
    optimizer.step()
    norms = [torch.zeros(()) for _ in range(2)]
    dist.all_gather(norms, norm)
    with FSDP.summon_full_params(model):
        values = {name: numbers(p) for name, p in module.named_parameters()}
    return {"norms": [float(f"{v.item():.8g}") for v in norms], "values": values}


def batch_norm():
    """SyncBatchNorm does not run on CPUs; with all rows on one rank, it is the batch norm of these rows."""
    module = nn.BatchNorm1d(2)
    x = torch.tensor([[1.0, 2.0], [3.0, 5.0], [4.0, -1.0]], requires_grad=True)
    y = module(x)
    (y**3).sum().backward()
    return {
        "y": numbers(y),
        "dx": numbers(x.grad),
        "gradients": [numbers(module.weight.grad), numbers(module.bias.grad)],
        "statistics": [numbers(module.running_mean), numbers(module.running_var)],
    }


def work(rank, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=2)
    found = {
        "gradients": {how: gradients_by_hand(how, rank) for how in ("DDP", "fullyShard", "FSDP")},
        "unfreezing": {optim: unfreezing(optim, "none", 0) for optim in ("adamW", "adam", "sgd")},
        "freezing": {"DDP": unfreezing("adamW", "DDP", rank, freezes_later=True), "between": freezing_between()},
        "sharing": {how: sharing(how, rank) for how in ("DDP", "fullyShard")},
        "clipping": {"equal rows": clipping(rank, [0, 0]), "other rows": clipping(rank, [0, 1])},
        "batchNorm": batch_norm(),
    }
    if rank == 0:
        indented = json.dumps({"made_by": f"test/data/by_hand_reference.py, torch {torch.__version__}", **found}, indent=1)
        with open(os.path.join(HERE, "by_hand_reference.json"), "w") as file:
            file.write(re.sub(r"\[[^\[\]{}]*\]", lambda array: "[" + " ".join(array.group()[1:-1].split()) + "]", indented) + "\n")
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(work, args=(29561,), nprocs=2)
