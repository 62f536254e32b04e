"""Prints partial_reference.json: three AdamW steps of a model of which only the middle layer is under a wrapper, on two ranks.

Needs torch 2.13 (gloo on CPU). Floats are rounded to eight digits.

    python test/data/partial_reference.py > test/data/partial_reference.json
"""

import json
import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
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

    def forward(self, x):
        return self.c(torch.tanh(self.b(torch.tanh(self.a(x))))).mean()


def work(rank, wrapper, port, results):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=2)
    model = Model()
    if wrapper == "fullyShard":
        fully_shard(model.b)
    if wrapper == "DDP":
        model.b = DDP(model.b)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05, weight_decay=0.1)
    losses = []
    for step in range(3):
        x = torch.cos(torch.arange(8, dtype=torch.float64) + 8 * (2 * step + rank)).float().reshape(2, 4)
        optimizer.zero_grad()
        loss = model(x)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    values = {}
    for name, parameter in model.named_parameters():
        whole = parameter.full_tensor() if hasattr(parameter, "full_tensor") else parameter
        values[name.replace(".module", "")] = whole.detach().flatten().tolist()
    results.put((rank, {"losses": losses, "values": values}))
    dist.barrier()
    dist.destroy_process_group()


def main():
    context = mp.get_context("spawn")
    reference = {}
    for place, wrapper in enumerate(["fullyShard", "DDP", "none"]):
        results = context.Queue()
        ranks = [context.Process(target=work, args=(rank, wrapper, 29700 + place, results)) for rank in range(2)]
        for rank in ranks:
            rank.start()
        found = dict(results.get(timeout=60) for _ in ranks)
        for rank in ranks:
            rank.join()
        reference[wrapper] = [found[0], found[1]]
    print(json.dumps(json.loads(json.dumps(reference), parse_float=lambda text: float(f"{float(text):.8g}"))))


if __name__ == "__main__":
    main()
