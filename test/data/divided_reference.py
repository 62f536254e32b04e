"""Prints divided_reference.json: losses and parameters of models whose layers tests divide over tensor-parallel ranks.

Each case trains a whole model for three steps in one process. Needs torch 2.13 (CPU).

    python test/data/divided_reference.py > test/data/divided_reference.json
"""

import json

import torch
from torch import nn
from torch.nn import functional as F

CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


def wave(*shape, seed=0, height=0.5):
    n = torch.arange(torch.Size(shape).numel(), dtype=torch.float64)
    return (height * torch.sin(n + seed)).float().reshape(shape)


def fill(model):
    with torch.no_grad():
        for i, parameter in enumerate(model.parameters()):
            parameter.copy_(wave(*parameter.shape, seed=i + 1))
    return model


class Net(nn.Module):
    """Parts and a forward, which gets the parts and an input."""

    def __init__(self, forward, **parts):
        super().__init__()
        for name, part in parts.items():
            setattr(self, name, part)
        self.run = forward

    def forward(self, x):
        return self.run(self, x)


def square(x):
    return (x * x).mean()


def trained(model, *shape, loss=square):
    fill(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    losses = []
    for step in range(3):
        value = loss(model(wave(*shape, seed=step, height=1)))
        value.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(value.item())
    return {"losses": losses, **{name: p.flatten().tolist() for name, p in model.named_parameters()}}


@case
def scale():
    forward = lambda m, x: m.down(torch.tanh(m.up(x)) * m.scale)
    return trained(Net(forward, scale=nn.Parameter(torch.zeros(1)), up=nn.Linear(3, 8), down=nn.Linear(8, 2)), 5, 3)


@case
def gate():
    forward = lambda m, x: m.down(torch.tanh(m.up(x)) * torch.sigmoid(m.gate(x)))
    return trained(Net(forward, gate=nn.Linear(3, 1), up=nn.Linear(3, 8), down=nn.Linear(8, 2)), 5, 3)


@case
def hidden_penalty():
    def forward(m, x):
        h = torch.tanh(m.up(x))
        return square(m.down(h)) + square(h)

    return trained(Net(forward, up=nn.Linear(3, 8), down=nn.Linear(8, 2)), 5, 3, loss=lambda value: value)


@case
def softmax():
    forward = lambda m, x: m.down(torch.softmax(m.up(x), -1))
    return trained(Net(forward, up=nn.Linear(3, 8), down=nn.Linear(8, 2)), 5, 3)


@case
def head_norm():
    def forward(m, x):
        rows, positions, _ = x.shape
        heads = lambda layer: layer(x).reshape(rows, positions, -1, 2)
        q, k, v = m.norm(heads(m.q)), m.norm(heads(m.k)), heads(m.v)
        y = F.scaled_dot_product_attention(*[each.transpose(1, 2) for each in (q, k, v)], is_causal=True)
        return m.o(y.transpose(1, 2).reshape(rows, positions, -1))

    parts = {name: nn.Linear(4, 4) for name in "qkvo"}
    return trained(Net(forward, norm=nn.LayerNorm(2), **parts), 2, 3, 4)


@case
def sequence_scale():
    forward = lambda m, x: m.down(torch.tanh(m.up(m.into(x)))) * m.scale
    parts = {"into": nn.Linear(3, 4), "up": nn.Linear(4, 8), "down": nn.Linear(8, 4)}
    return trained(Net(forward, scale=nn.Parameter(torch.zeros(4)), **parts), 2, 4, 3)


def rounded(value):
    return [float(f"{v:.9g}") for v in value]


lines = ",\n".join(
    f" {json.dumps(name)}: {json.dumps({key: rounded(value) for key, value in function().items()})}"
    for name, function in CASES.items()
)
print(f"{{\n{lines}\n}}")
