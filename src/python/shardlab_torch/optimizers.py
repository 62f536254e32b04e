"""Makes the optimizer that a config describes."""

from __future__ import annotations

import torch
from torch import nn

from .errors import Json
from .layout import Layout
from .stages import Stages
from .states import PENDING
from .strategy import Strategy

_KINDS: dict[str, type[torch.optim.Optimizer]] = {"adamW": torch.optim.AdamW, "adam": torch.optim.Adam, "sgd": torch.optim.SGD}


def state_names(optimizer: Json) -> list[str]:
    """Returns the names of the states that the optimizer has per parameter."""
    waiting = [PENDING] if optimizer["delayedUpdate"] else []
    if optimizer["kind"] == "sgd":
        return [*(["momentum_buffer"] if optimizer["momentum"] > 0 else []), *waiting]
    return ["exp_avg", "exp_avg_sq", *(["max_exp_avg_sq"] if optimizer["amsgrad"] else []), *waiting]


def options_of(optimizer: Json, layout: Layout) -> Json:
    """Returns the arguments of the optimizer's class. JSON writes 0.0 as 0, but PyTorch refuses betas that are not both floats."""
    options: Json = {"lr": float(optimizer["lr"]), "weight_decay": float(optimizer["weightDecay"]), "maximize": optimizer["maximize"]}
    if optimizer["kind"] == "sgd":
        options.update(momentum=float(optimizer["momentum"]), nesterov=optimizer["nesterov"])
    else:
        options.update(betas=tuple(map(float, optimizer["betas"])), eps=float(optimizer["eps"]), amsgrad=optimizer["amsgrad"])
    # Kernels over lists of tensors halve an update's time. PyTorch does not choose them by default on CPUs. They refuse tensors
    # of different meshes.
    options["foreach"] = max(layout.tp, layout.ep) == 1
    return options


def make_optimizer(strategy: Strategy, parameters: dict[str, nn.Parameter], stages: Stages, optimizer: Json) -> torch.optim.Optimizer:
    """Makes the optimizer of a config."""
    trained = {name: parameter for name, parameter in parameters.items() if name not in stages.frozen}
    return strategy.make_optimizer(_KINDS[optimizer["kind"]], list(trained.values()), options_of(optimizer, strategy.layout))
