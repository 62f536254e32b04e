"""Prints backward_reference.json: parameters after training by loss.backward() in the ways in which PyTorch users write it.

Each case returns the named parameters of its models at the end, or the error that torch raises ('second time' or
'modified'). Needs torch 2.13 (CPU). Floats have nine digits.

    python test/data/backward_reference.py > test/data/backward_reference.json
"""

import json

import torch
from torch import nn

CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


def fill(module, seed):
    with torch.no_grad():
        for i, parameter in enumerate(module.parameters()):
            n = torch.arange(parameter.numel(), dtype=torch.float64)
            parameter.copy_((0.5 * torch.sin(n + seed + i)).float().reshape(parameter.shape))
    return module


def linear(inputs, outputs, seed):
    return fill(nn.Linear(inputs, outputs), seed)


def data(rows, columns, seed):
    n = torch.arange(rows * columns, dtype=torch.float64)
    return torch.cos(n + seed).float().reshape(rows, columns)


def step(*models):
    for model in models:
        torch.optim.SGD(model.parameters(), lr=0.1).step()
        model.zero_grad()


def square(x):
    return (x * x).mean()


@case
def adversarial():
    g, d = linear(2, 3, 1), linear(3, 1, 2)
    for i in range(5):
        z, real = data(4, 2, i), data(4, 3, 10 + i)
        fake = g(z)
        (square(d(real) - 1) + square(d(fake.detach()))).backward()
        step(d)
        g.zero_grad()
        square(d(fake) - 1).backward()
        step(g)
    return g, d


@case
def adversarial_deep():
    g = nn.Sequential(linear(2, 4, 1), nn.BatchNorm1d(4), nn.Tanh(), linear(4, 3, 3))
    d = nn.Sequential(linear(3, 4, 5), nn.Tanh(), linear(4, 1, 7))
    for i in range(5):
        z, real = data(4, 2, i), data(4, 3, 10 + i)
        fake = g(z)
        for _ in range(2):
            (square(d(real) - 1) + square(d(fake.detach()))).backward()
            step(d)
        square(d(fake) - 1).backward()
        step(g)
        d.zero_grad()
    return g, d


@case
def adversarial_without_detach():
    g, d = linear(2, 3, 1), linear(3, 1, 2)
    fake = g(data(4, 2, 0))
    square(d(fake)).backward()
    step(d)
    square(d(fake) - 1).backward()
    step(g, d)
    return g, d


@case
def other_backward_between():
    f, aux, h = linear(3, 4, 1), linear(3, 1, 2), linear(4, 1, 3)
    x = data(5, 3, 0)
    y = f(x)
    aux(x).sum().backward()
    h(y).sum().backward()
    step(f, aux, h)
    return f, aux, h


@case
def head_used_twice():
    f, h = linear(3, 4, 1), linear(4, 1, 3)
    y = f(data(5, 3, 0))
    h(y).sum().backward()
    square(h(y)).backward()
    step(f, h)
    return f, h


def encoder():
    model = nn.Sequential(linear(3, 4, 1), nn.BatchNorm1d(4), nn.Tanh(), nn.Dropout(0.5), linear(4, 4, 6))
    model.train()
    model[3].eval()
    for i in range(2):
        square(model(data(5, 3, i))).backward()
        step(model)
    return model


@case
def encoder_in_evaluation():
    e, h = encoder(), linear(4, 1, 3)
    e.eval()
    for i in range(3):
        square(h(torch.relu(e(data(5, 3, 4 + i))))).backward()
        step(e, h)
    return e, h


@case
def all_in_evaluation():
    e = encoder().eval()
    square(e(data(5, 3, 4))).backward()
    step(e)
    return (e,)


@case
def two_encoders_in_evaluation():
    e, f, h = encoder().eval(), linear(3, 4, 8).eval(), linear(4, 1, 3)
    x = data(5, 3, 4)
    square(h(e(x) * f(x) + e(-x))).backward()
    step(e, f, h)
    return e, f, h


@case
def evaluation_after_training_part():
    f, e = linear(3, 3, 9), encoder().eval()
    square(e(f(data(5, 3, 4)))).backward()
    step(f, e)
    return f, e


@case
def frozen_judge():
    f, judge = linear(3, 3, 9), encoder().eval()
    for parameter in judge.parameters():
        parameter.requires_grad = False
    square(judge(f(data(5, 3, 4)))).backward()
    step(f)
    return f, judge


@case
def penalty_before_forward():
    f = linear(3, 2, 1)
    penalty = (f.weight * f.weight).sum()
    (f(data(5, 3, 0)).mean() + penalty).backward()
    step(f)
    return (f,)


@case
def penalty_alone():
    f = linear(3, 2, 1)
    f.weight.abs().sum().backward()
    step(f)
    return (f,)


class Prompted(nn.Module):
    def __init__(self):
        super().__init__()
        self.prompt = nn.Parameter(torch.zeros(3))
        self.body = nn.Linear(3, 2)
        fill(self, 1)


@case
def prompt_before_module():
    model = Prompted()
    square(model.body(model.prompt + data(5, 3, 0))).backward()
    step(model)
    return (model,)


@case
def gradient_penalty():
    d = nn.Sequential(linear(3, 4, 1), nn.Tanh(), linear(4, 1, 3))
    x = data(5, 3, 0).requires_grad_()
    (slope,) = torch.autograd.grad(d(x).sum(), x, create_graph=True)
    square(slope.norm(dim=1) - 1).backward()
    step(d)
    return (d,)


@case
def gradient_penalty_beside_loss():
    d = nn.Sequential(linear(3, 4, 1), nn.Tanh(), linear(4, 1, 3))
    x = data(5, 3, 0).requires_grad_()
    loss = d(data(5, 3, 7)).mean()
    (slope,) = torch.autograd.grad(d(x).sum(), x, create_graph=True)
    (loss + square(slope.norm(dim=1) - 1)).backward()
    step(d)
    return (d,)


@case
def siamese():
    f = nn.Sequential(linear(3, 4, 1), nn.Tanh(), linear(4, 2, 3))
    square(f(data(5, 3, 0)) - f(data(5, 3, 9))).backward()
    step(f)
    return (f,)


@case
def losses_first_then_backwards():
    f = nn.Sequential(linear(3, 4, 1), nn.Tanh(), linear(4, 2, 3))
    for loss in [square(f(data(5, 3, i))) for i in range(4)]:
        loss.backward()
    step(f)
    return (f,)


@case
def step_between_forward_and_backward():
    f = nn.Sequential(linear(3, 4, 1), nn.Tanh(), linear(4, 2, 3))
    first, second = square(f(data(5, 3, 0))), square(f(data(5, 3, 1)))
    first.backward()
    step(f)
    second.backward()
    step(f)
    return (f,)


@case
def load_between_forward_and_backward():
    f = nn.Sequential(linear(3, 4, 1), nn.Tanh(), linear(4, 2, 3))
    loss = square(f(data(5, 3, 0)))
    f.load_state_dict({name: 2 * value for name, value in f.state_dict().items()})
    loss.backward()
    step(f)
    return (f,)


@case
def state_carried_over_steps():
    f = linear(3, 3, 1)
    h = data(5, 3, 0)
    for i in range(3):
        h = torch.tanh(f(h + data(5, 3, i)))
        square(h).backward()
        step(f)
    return (f,)


@case
def state_detached_over_steps():
    f = linear(3, 3, 1)
    h = data(5, 3, 0)
    for i in range(3):
        h = torch.tanh(f(h.detach() + data(5, 3, i)))
        square(h).backward()
        step(f)
    return (f,)


@case
def metrics_between():
    f, h = linear(3, 4, 1), linear(4, 1, 3)
    for i in range(4):
        logits = f(data(5, 3, i))
        probabilities = torch.softmax(logits, 1)
        y = torch.tanh(logits)
        loss = square(h(y))
        loss.backward()
        step(f, h)
        assert (probabilities * logits).sum().isfinite()
    return f, h


@case
def loss_of_kept_part():
    f, g, h = linear(3, 4, 1), linear(3, 4, 2), linear(4, 1, 3)
    x = data(5, 3, 0)
    a, b = f(x), g(x)
    square(h(a)).backward()
    h.zero_grad()
    square(h(b)).backward()
    step(f, g, h)
    return f, g, h


@case
def alternating_freezing():
    g, d = linear(2, 3, 1), linear(3, 1, 2)
    for i in range(3):
        d.requires_grad_(True)
        (square(d(data(4, 3, 10 + i)) - 1) + square(d(g(data(4, 2, i)).detach()))).backward()
        step(d)
        d.requires_grad_(False)
        square(d(g(data(4, 2, i))) - 1).backward()
        step(g)
    return g, d


@case
def frozen_between_forward_and_backward():
    f, h = linear(3, 4, 1), linear(4, 1, 3)
    loss = square(h(torch.tanh(f(data(5, 3, 0)))))
    h.requires_grad_(False)
    loss.backward()
    h.requires_grad_(True)
    step(f, h)
    return f, h


@case
def gradient_of_input():
    f = nn.Sequential(linear(3, 4, 1), nn.Tanh(), linear(4, 2, 3))
    x = data(5, 3, 0).requires_grad_()
    square(f(x)).backward()
    return (nn.ParameterDict({"x": x.grad}),)


@case
def penalty_averaged_over_ranks():
    d = nn.Sequential(linear(3, 4, 1), nn.Tanh(), linear(4, 1, 3))
    for i in range(2):
        for rank in range(2):
            x = data(5, 3, 10 * i + rank).requires_grad_()
            (slope,) = torch.autograd.grad(d(x).sum(), x, create_graph=True)
            ((d(x.detach()).mean() + square(slope.norm(dim=1) - 1)) / 2).backward()
        step(d)
    return (d,)


@case
def snapshots_by_clone():
    f = nn.Sequential(linear(3, 4, 1), nn.Tanh(), linear(4, 2, 3))
    first = f[0].weight
    before = first.detach().clone()
    square(f(data(5, 3, 0))).backward()
    gradient = first.grad.clone()
    square(f(data(5, 3, 1))).backward()
    nn.utils.clip_grad_norm_(f.parameters(), 0.01)
    step(f)
    first.grad = gradient + before
    step(f)
    return (f,)


def outcome(function):
    try:
        models = function()
    except RuntimeError as error:
        text = str(error)
        return "second time" if "second time" in text else "modified" if "modified by an inplace" in text else text
    return [
        {name: [float(f"{v:.9g}") for v in p.detach().flatten().tolist()] for name, p in model.named_parameters()}
        for model in models
    ]


outcomes = {name: outcome(function) for name, function in CASES.items()}
lines = ",\n".join(f" {json.dumps(name)}: {json.dumps(value)}" for name, value in outcomes.items())
print(f"{{\n{lines}\n}}")
