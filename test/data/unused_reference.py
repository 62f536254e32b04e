"""Prints unused_reference.json: AdamW steps of a model that does not always use its middle layer, on two ranks.

Needs torch 2.13 (gloo on CPU). Which ranks use the layer, step by step: all, none, none, all; under 'DDP, rank 0' all,
rank 0, none, all. Floats are rounded to eight digits.

    python test/data/unused_reference.py > test/data/unused_reference.json
"""

import json
import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel as DDP


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a = torch.nn.Linear(4, 4)
        self.b = torch.nn.Linear(4, 4)
        self.c = torch.nn.Linear(4, 1)
        with torch.no_grad():
            for i, parameter in enumerate(self.parameters()):
                n = torch.arange(parameter.numel(), dtype=torch.float64)
                parameter.copy_((0.5 * torch.sin(n + i)).float().reshape(parameter.shape))

    def forward(self, x, uses_b):
        h = torch.tanh(self.a(x))
        if uses_b:
            h = torch.tanh(self.b(h))
        return self.c(h).mean()


def values_of(model):
    return {
        name: (p.full_tensor() if hasattr(p, "full_tensor") else p).detach().flatten().tolist()
        for name, p in model.named_parameters()
    }


def train(case, rank):
    module = Model()
    model = module
    if case == "fullyShard":
        fully_shard(model)
    elif case == "FSDP":
        model = FSDP(model, device_id=torch.device("cpu"))
    else:
        model = DDP(model, find_unused_parameters=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05, weight_decay=0.5)
    uses = [True, case == "DDP, rank 0" and rank == 0, False, True]
    for step in range(4):
        x = torch.cos(torch.arange(8, dtype=torch.float64) + 8 * (2 * step + rank)).float().reshape(2, 4)
        optimizer.zero_grad()
        model(x, uses[step]).backward()
        optimizer.step()
    if case == "FSDP":
        with FSDP.summon_full_params(model):
            return values_of(module)
    return values_of(module)


def work(rank, results):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29947")
    dist.init_process_group("gloo", rank=rank, world_size=2)
    reference = {case: train(case, rank) for case in ["DDP", "DDP, rank 0", "fullyShard", "FSDP"]}
    if rank == 0:
        results.put(reference)
    dist.barrier()
    dist.destroy_process_group()


def main():
    context = mp.get_context("spawn")
    results = context.Queue()
    ranks = [context.Process(target=work, args=(rank, results)) for rank in range(2)]
    for rank in ranks:
        rank.start()
    reference = results.get()
    print(json.dumps(json.loads(json.dumps(reference), parse_float=lambda text: float(f"{float(text):.8g}"))))
    for rank in ranks:
        rank.join()


if __name__ == "__main__":
    main()
