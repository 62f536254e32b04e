"""Training in one plain process, with which the strategies are compared."""

from __future__ import annotations

from typing import Any, Callable

import numpy as np
import torch
import torch.nn.functional as F
from launcher import Json
from safetensors.torch import load_file

from shardlab_torch.gpt import GPT
from shardlab_torch.llama import Llama
from shardlab_torch.moe import MoeGPT, mixtures_in, read_keys, seed_noise, with_auxiliary
from shardlab_torch.noise import token_keys

KINDS: dict[str, Any] = {"gpt": GPT, "llama": Llama, "moe": MoeGPT}
OPTIMIZERS: dict[str, Any] = {"adamW": torch.optim.AdamW, "adam": torch.optim.Adam, "sgd": torch.optim.SGD}


def plain_model(shape: Json, init: str) -> torch.nn.Module:
    model: torch.nn.Module = KINDS[shape["kind"]](shape, range(shape["layers"]), True, True)
    model.load_state_dict(load_file(f"{init}/model.safetensors"))
    return model


def random_init(shape: Json, folder: str, seed: int = 0) -> None:
    """Writes initial values of a model into a folder."""
    from safetensors.torch import save_file

    torch.manual_seed(seed)
    model = KINDS[shape["kind"]](shape, range(shape["layers"]), True, True)
    values = {name: torch.randn_like(each) * 0.05 + ("norm" in name) for name, each in model.named_parameters()}
    save_file({name: each.detach() for name, each in values.items()}, f"{folder}/model.safetensors")


def train_plain(shape: Json, config: Json, init: str, make: Callable[[Json], Json], steps: int, dp: int) -> tuple[list[float], list[float], torch.nn.Module]:
    """Trains on the batches of all data-parallel ranks; returns the losses, the norms of gradients and the model."""
    model = plain_model(shape, init)
    settings = config["optimizer"]
    options: Json = {"lr": settings["lr"], "weight_decay": settings["weightDecay"]}
    if settings["kind"] == "sgd":
        options["momentum"] = settings["momentum"]
    else:
        options.update(betas=tuple(settings["betas"]), eps=settings["eps"])
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(not any(name.startswith(f"{frozen}.") for frozen in config["frozen"]))
    seed_noise(model, config["seed"])
    optimizer = OPTIMIZERS[settings["kind"]]([each for each in model.parameters() if each.requires_grad], **options)
    losses, norms = [], []
    count = config["accumulation"]
    for step in range(steps):
        optimizer.zero_grad()
        mean = 0.0
        for rank in range(dp):
            tokens = make({"what": "train", "rank": rank, "first": step * count, "count": count})["tokens"]
            for batch in torch.from_numpy(tokens.astype(np.int64)):
                ids = batch[:, :-1]
                read_keys([model], lambda: token_keys(ids))
                logits = model(ids)
                loss = with_auxiliary(F.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten()), [model])
                (loss / (count * dp)).backward()
                mean += float(loss.detach()) / (count * dp)
        for mixture in mixtures_in([model]):
            for index, rows in enumerate(mixture.take_counts().tolist()):
                if rows == 0:
                    mixture.experts[str(index)].zero_grad()
        norms.append(float(torch.nn.utils.clip_grad_norm_(model.parameters(), config["clipNorm"] or float("inf"))))
        optimizer.step()
        losses.append(mean)
    return losses, norms, model
