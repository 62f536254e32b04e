"""Records the gradients that torch's powerSGD_hook makes on two ranks, from given gradients and given first Qs.

python -m pip install torch==2.15.0 && python test/data/power_sgd_reference.py
"""

import json
import math
import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

HERE = os.path.dirname(os.path.abspath(__file__))
SHAPES = {"a": [8, 6], "b": [5, 7], "c": [7], "d": [3, 2]}
CASES = {
    "rank 1": dict(matrix_approximation_rank=1),
    "rank 2": dict(matrix_approximation_rank=2),
    "without warm start": dict(matrix_approximation_rank=2, warm_start=False),
    "without error feedback": dict(matrix_approximation_rank=2, use_error_feedback=False),
}
WORLD, START, STEPS = 2, 2, 5
MASK = 0xFFFFFFFF


class Random:
    """src/core/random.ts: sfc32, seeded by splitmix32 over the labels' characters."""

    def __init__(self, seed, *labels):
        self.state = seed & MASK
        for character in "\0".join(str(label) for label in labels):
            self.state ^= ord(character)
            self.state = self.mix()
        self.a, self.b, self.c, self.counter = self.mix(), self.mix(), self.mix(), 1
        for _ in range(12):
            self.next()

    def mix(self):
        self.state = (self.state + 0x9E3779B9) & MASK
        z = self.state ^ (self.state >> 16)
        z = (z * 0x21F0AAAD) & MASK
        z = z ^ (z >> 15)
        z = (z * 0x735A2D97) & MASK
        return z ^ (z >> 15)

    def next(self):
        t = (self.a + self.b + self.counter) & MASK
        self.counter = (self.counter + 1) & MASK
        self.a = self.b ^ (self.b >> 9)
        self.b = (self.c + (self.c << 3)) & MASK
        self.c = (((self.c << 21) | (self.c >> 11)) + t) & MASK
        return t

    def normal(self):
        u, v = self.next() / 2**32, self.next() / 2**32
        return math.sqrt(-2 * math.log(1 - u)) * math.cos(2 * math.pi * v)


def gradient(rank, step, number, size):
    return [math.sin(0.7 * i + 1.3 * step + 2.1 * rank + number) + 0.1 * math.cos(i * i + rank) for i in range(size)]


class Model(torch.nn.Module):
    """Its loss has the given gradients."""

    def __init__(self):
        super().__init__()
        for name, shape in SHAPES.items():
            self.register_parameter(name, torch.nn.Parameter(torch.zeros(shape)))

    def forward(self, rank, step):
        total = 0
        for number, (name, shape) in enumerate(SHAPES.items()):
            parameter = getattr(self, name)
            values = torch.tensor(gradient(rank, step, number, parameter.numel())).reshape(shape)
            total = total + (parameter * values).sum()
        return total


def first_q(state, names):
    def patched(*shape, **options):
        columns, rank = shape[-2:]
        random = Random(0, "powerSGD", names[columns], state.iter)
        return torch.tensor([random.normal() for _ in range(columns * rank)]).reshape(shape)

    return patched


def record(rank, results):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29533")
    dist.init_process_group("gloo", rank=rank, world_size=WORLD)
    randn = torch.randn
    for case, options in CASES.items():
        ddp = DistributedDataParallel(Model())
        state = powerSGD_hook.PowerSGDState(
            None, start_powerSGD_iter=START, min_compression_rate=1.01, **options
        )
        ddp.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
        torch.randn = first_q(state, {shape[1]: name for name, shape in SHAPES.items() if len(shape) == 2})
        steps = []
        for step in range(STEPS):
            ddp.zero_grad()
            ddp(rank, step).backward()
            steps.append({name: [float(f"{x:.7g}") for x in p.grad.flatten().tolist()] for name, p in ddp.module.named_parameters()})
        torch.randn = randn
        if rank == 0:
            results[case] = steps[START:]
    dist.destroy_process_group()


if __name__ == "__main__":
    with mp.Manager() as manager:
        results = manager.dict()
        mp.spawn(record, (results,), nprocs=WORLD)
        with open(os.path.join(HERE, "power_sgd_reference.json"), "w") as file:
            json.dump({"torch": torch.__version__, **{case: results[case] for case in CASES}}, file, separators=(",", ":"))
            file.write("\n")
