"""Makes the optimizer that a config describes."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.distributed.tensor import DTensor

from .errors import Json, ShardlabError
from .stages import Stages, fits
from .states import PENDING
from .strategy import Strategy

_KINDS: dict[str, type[torch.optim.Optimizer]] = {"adamW": torch.optim.AdamW, "adam": torch.optim.Adam, "sgd": torch.optim.SGD}


def state_names(optimizer: Json) -> list[str]:
    """Returns the names of the states that the optimizer has per parameter."""
    waiting = [PENDING] if optimizer["delayedUpdate"] else []
    if optimizer["kind"] == "sgd":
        return [*(["momentum_buffer"] if optimizer["momentum"] > 0 else []), *waiting]
    return ["exp_avg", "exp_avg_sq", *(["max_exp_avg_sq"] if optimizer["amsgrad"] else []), *waiting]


def first_rates(optimizer: Json) -> list[float]:
    """Returns the learning rates of the parameters in no named group, and of each named group."""
    return [float(optimizer["lr"]), *(float(group.get("lr", optimizer["lr"])) for group in optimizer["groups"])]


def options_of(optimizer: Json, group: Json) -> Json:
    """
    Returns the arguments of the optimizer's class for a group of parameters, whose settings go before those of the optimizer. JSON
    writes 0.0 as 0, but PyTorch refuses betas that are not both floats.
    """
    optimizer = {**optimizer, **group}
    options: Json = {"lr": float(optimizer["lr"]), "weight_decay": float(optimizer["weightDecay"])}
    if optimizer["kind"] == "sgd":
        options.update(momentum=float(optimizer["momentum"]), nesterov=optimizer["nesterov"])
    else:
        options.update(betas=tuple(map(float, optimizer["betas"])), eps=float(optimizer["eps"]))
    return options


def _common_options(optimizer: Json) -> Json:
    """
    Returns the arguments that are the same for all groups. Kernels over lists of tensors halve an update's time. PyTorch does not
    choose them by default on CPUs. Its fused SGD does not know DTensors, so SGD never uses it.
    """
    is_sgd = optimizer["kind"] == "sgd"
    kernel = "fused" if optimizer["fused"] and not is_sgd else "foreach"
    return {"maximize": optimizer["maximize"], kernel: True, **({} if is_sgd else {"amsgrad": optimizer["amsgrad"]})}


def groups_of(stages: Stages, optimizer: Json, given: list[list[str]] | None) -> list[set[str]]:
    """
    Returns the names of the parameters of each of the config's groups. The launcher gives them, except for a model of the user's
    own. Raises ShardlabError for a name that no module or parameter has.
    """
    if given is not None:
        return [set(names) for names in given]
    return [_named(stages, group, f"optimizer.groups.{i}") for i, group in enumerate(optimizer["groups"])]


def _named(stages: Stages, group: Json, where: str) -> set[str]:
    """Finds parameters by the ends of names, and by the classes of modules. Source: groupParameters of src/nn/name-patterns.ts."""
    (model,) = stages.modules
    modules = [(name, type(module).__name__) for name, module in model.named_modules()]
    found: set[str] = set()
    for key in ("modules", "parameters"):
        wanted = group.get(key) or []
        for pattern in [wanted] if isinstance(wanted, str) else wanted:
            if key == "parameters":
                names = {name for name in stages.shapes if _fits_end(name, pattern)}
            else:
                within = [name for name, kind in modules if kind == pattern or _fits_end(name, pattern)]
                names = {name for name in stages.shapes for module in within if module == "" or name.startswith(f"{module}.")}
            if not names:
                raise ShardlabError("CONFIG", f"{where}.{key}: the model has no parameters under the name or class {pattern}; correct it")
            found |= names
    return found


def _fits_end(name: str, pattern: str) -> bool:
    return fits(".".join(name.split(".")[-len(pattern.split(".")) :]), pattern)


def make_optimizer(
    strategy: Strategy, parameters: dict[str, nn.Parameter], stages: Stages, optimizer: Json, groups: list[set[str]]
) -> torch.optim.Optimizer:
    """
    Makes the optimizer of a config. A parameter is in the first group that names it. PyTorch's kernels over lists refuse tensors of
    different meshes, so each group is divided by meshes.
    """
    own: list[Json] = [{}, *optimizer["groups"]]
    members: dict[tuple[int, Any], list[nn.Parameter]] = {}
    for name, parameter in parameters.items():
        if name not in stages.frozen:
            index = next((i for i, names in enumerate(groups, 1) if name in names), 0)
            mesh = parameter.device_mesh if isinstance(parameter, DTensor) else None
            members.setdefault((index, mesh), []).append(parameter)
    made = [{"params": each, "index": index, **options_of(optimizer, own[index])} for (index, _), each in members.items()]
    return strategy.make_optimizer(_KINDS[optimizer["kind"]], made, _common_options(optimizer))
