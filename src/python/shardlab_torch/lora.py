"""Adapters of linear layers (LoRA): y = Wx + b + alpha / r · BAx. Only A and B train."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import Tensor, nn

from .errors import Json


def adapt(model: nn.Module, names: Iterable[str], config: Json) -> None:
    """Adds adapters to the named layers that a model, or a stage of it, has."""
    layers = dict(model.named_modules())
    for name in names:
        if name in layers:
            _add(layers[name], int(config["r"]), config["alpha"] / config["r"])


def is_adapter(name: str) -> bool:
    """Whether a parameter is of an adapter, by its name."""
    return name.endswith((".lora_A.weight", ".lora_B.weight"))


def _add(layer: Any, rank: int, scale: float) -> None:
    layer.lora_A = nn.Linear(layer.in_features, rank, bias=False)
    layer.lora_B = nn.Linear(rank, layer.out_features, bias=False)
    original = layer.forward

    def forward(x: Tensor) -> Tensor:
        y: Tensor = original(x) + layer.lora_B(layer.lora_A(x)) * scale
        return y

    layer.forward = forward
