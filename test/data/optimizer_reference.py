"""Records what torch.optim and torch.optim.lr_scheduler compute over 20 steps: python3 optimizer_reference.py > optimizer_reference.json

Lion is in neither: its update is algorithm 2 of Chen et al. 2023, in the order of google/automl's lion_pytorch.py.
Recorded with torch 2.13 on a CPU, in float32; the rates of schedules are Python's floats.
"""

import json

import torch
from torch.optim import lr_scheduler as lrs

STEPS, SIZE = 20, 13


class Lion(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0, maximize=False):
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay, maximize=maximize))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                grad = -p.grad if group["maximize"] else p.grad
                state = self.state[p]
                m = state.setdefault("exp_avg", torch.zeros_like(p))
                (beta1, beta2), lr = group["betas"], group["lr"]
                p.mul_(1 - lr * group["weight_decay"])
                p.add_(torch.sign(m * beta1 + grad * (1 - beta1)), alpha=-lr)
                m.mul_(beta2).add_(grad, alpha=1 - beta2)


def values(seed):
    return torch.randn(SIZE, generator=torch.Generator().manual_seed(seed))


def gradients(step, of=0):
    # Later gradients are smaller, so that amsgrad's maximum differs from the second moment.
    return values(100 * (of + 1) + step) / (1 + step / 2)


STARTS = [values(0), values(1)]
KINDS = {"adamW": torch.optim.AdamW, "adam": torch.optim.Adam, "sgd": torch.optim.SGD, "lion": Lion}
CAMEL = {"weightDecay": "weight_decay"}


def train(kind, options, groups=({}, {})):
    params = [torch.nn.Parameter(start.clone()) for start in STARTS]
    own = lambda given: {CAMEL.get(key, key): value for key, value in given.items()}
    optimizer = KINDS[kind]([{"params": [p], **own(g)} for p, g in zip(params, groups)], **own(options))
    after = {}
    for step in range(1, STEPS + 1):
        for i, p in enumerate(params):
            p.grad = gradients(step, i)
        optimizer.step()
        if step in (1, STEPS):
            after[step] = [p.detach().tolist() for p in params]
    return {"kind": kind, "options": options, "groups": list(groups), "after": after}


CASES = {
    "adamW by default": ("adamW", {}),
    "adamW with amsgrad": ("adamW", {"lr": 0.01, "amsgrad": True, "weightDecay": 0.1}),
    "adam by default": ("adam", {}),
    "adam with weight decay": ("adam", {"lr": 0.01, "betas": [0.8, 0.95], "weightDecay": 0.1}),
    "adam with amsgrad, maximizing": ("adam", {"lr": 0.01, "amsgrad": True, "weightDecay": 0.1, "maximize": True}),
    "sgd with momentum": ("sgd", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weightDecay": 0.01}),
    "lion by default": ("lion", {}),
    "lion with weight decay": ("lion", {"lr": 0.003, "betas": [0.95, 0.98], "weightDecay": 0.1}),
    "adamW in groups": ("adamW", {"lr": 0.01}, ({"weightDecay": 0}, {"lr": 0.003, "betas": [0.8, 0.9]})),
    "adam in groups": ("adam", {"weightDecay": 0.1}, ({"weightDecay": 0, "eps": 1e-3}, {"lr": 0.03})),
    "sgd in groups": ("sgd", {"lr": 0.1, "momentum": 0.9}, ({"momentum": 0.5}, {"nesterov": True, "weightDecay": 0.1})),
    "lion in groups": ("lion", {"lr": 0.003}, ({"weightDecay": 0.1}, {"lr": 0.001})),
}


def after_warmup(warmup, schedule):
    rise = lambda o: lrs.LinearLR(o, start_factor=1 / warmup, total_iters=warmup - 1)
    return lambda o: lrs.SequentialLR(o, [rise(o), schedule(o)], [warmup])


def wsd(decay):
    # get_wsd_schedule of transformers, without its warm-up, which begins with a rate of 0.
    return lambda o: lrs.LambdaLR(o, lambda t: 1 if t < 10 else decay(min(1, (t - 10) / 8)))


cosine = lambda x: 0.5 * (1 + torch.cos(torch.tensor(torch.pi * x, dtype=torch.float64)).item())

SCHEDULES = {
    "StepLR": lambda o: lrs.StepLR(o, step_size=6, gamma=0.5),
    "MultiStepLR": lambda o: lrs.MultiStepLR(o, milestones=[3, 12]),
    "ExponentialLR": lambda o: lrs.ExponentialLR(o, gamma=0.9),
    "LinearLR": lambda o: lrs.LinearLR(o),
    "ConstantLR": lambda o: lrs.ConstantLR(o),
    "CosineAnnealingLR": lambda o: lrs.CosineAnnealingLR(o, T_max=8, eta_min=0.01),
    "LambdaLR": lambda o: lrs.LambdaLR(o, lambda t: 1 / (1 + t)),
    "constant": after_warmup(5, lambda o: lrs.ConstantLR(o, factor=1)),
    "linear": after_warmup(5, lambda o: lrs.LinearLR(o, start_factor=1, end_factor=0, total_iters=10)),
    "cosine": after_warmup(5, lambda o: lrs.CosineAnnealingLR(o, T_max=15, eta_min=0.01)),
    "wsd": wsd(cosine),
    "wsd, linear": wsd(lambda x: 1 - x),
    "wsd, sqrt": wsd(lambda x: 1 - x**0.5),
    "step": after_warmup(4, lambda o: lrs.StepLR(o, step_size=6, gamma=0.5)),
    "exponential": after_warmup(4, lambda o: lrs.ExponentialLR(o, gamma=0.9)),
    "linear, set to 0.05 after step 8": lambda o: lrs.LinearLR(o, start_factor=1, end_factor=0, total_iters=16),
    "LambdaLR, set to 0.05 after step 8": lambda o: lrs.LambdaLR(o, lambda t: 1 / (1 + t)),
    "cosine, set to 0.05 after step 8": lambda o: lrs.CosineAnnealingLR(o, T_max=20, eta_min=0.01),
}


def rates(name):
    params = [{"params": [torch.nn.Parameter(torch.zeros(1))], "lr": lr} for lr in (0.1, 0.02)]
    optimizer = torch.optim.SGD(params, lr=0.1)
    schedule = SCHEDULES[name](optimizer)
    found = []
    for step in range(1, STEPS + 1):
        found.append([group["lr"] for group in optimizer.param_groups])
        optimizer.step()
        schedule.step()
        if "after step 8" in name and step == 8:
            for group in optimizer.param_groups:
                group["lr"] = 0.05
    return found


print(json.dumps({
    "starts": [start.tolist() for start in STARTS],
    "gradients": [[gradients(step, of).tolist() for of in range(2)] for step in range(1, STEPS + 1)],
    "cases": {name: train(*case) for name, case in CASES.items()},
    "rates": {name: rates(name) for name in SCHEDULES},
}, separators=(",", ":")))
