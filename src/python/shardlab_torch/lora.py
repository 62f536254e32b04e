"""
Adapters of linear layers. LoRA: y = Wx + b + alpha / r · BAx, and only A and B train. DoRA: y = m · Vx / ‖V‖ + b with
V = W + alpha / r · BA; the norm is taken per row and is a constant in backward; m trains too.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from .dropout import Draws
from .errors import Json


class LoraMatrix(nn.Module):
    """A matrix of an adapter. It is no nn.Linear, so wrap policies make no unit of it: the layer's forward reads it."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs))

    def forward(self, x: Tensor) -> Tensor:
        return functional.linear(x, self.weight)


def adapt(model: nn.Module, names: Iterable[str], config: Json, draws: Draws) -> None:
    """Adds adapters to the named layers that the model (or the stage) has; ignores other names."""
    layers = dict(model.named_modules())
    for name in names:
        if name in layers:
            _add(layers[name], name, config, draws)


def is_adapter(name: str) -> bool:
    """Whether the parameter of this name belongs to an adapter."""
    return name.endswith((".lora_A.weight", ".lora_B.weight", ".lora_magnitude_vector"))


def _add(layer: Any, name: str, config: Json, draws: Draws) -> None:
    rank, scale, rate, has_magnitudes = int(config["r"]), config["alpha"] / config["r"], config["dropout"], config["useDora"]
    layer.lora_A = LoraMatrix(layer.in_features, rank)
    layer.lora_B = LoraMatrix(rank, layer.out_features)
    if has_magnitudes:
        layer.lora_magnitude_vector = nn.Parameter(torch.empty(layer.out_features))
    original = layer.forward

    def forward(x: Tensor) -> Tensor:
        y: Tensor = original(x)
        is_dropping = rate > 0 and layer.training
        dropped = draws.dropped(x, f"{name}.lora_dropout", rate) if is_dropping else x
        added: Tensor = layer.lora_B(layer.lora_A(dropped)) * scale
        if not has_magnitudes:
            return y + added
        with torch.no_grad():
            norms = torch.linalg.vector_norm(layer.weight + scale * (layer.lora_B.weight @ layer.lora_A.weight), dim=1)
        factors = layer.lora_magnitude_vector / norms
        if is_dropping:
            # As in PEFT, only the part of the output that the adapter changes reads the dropped inputs.
            own = functional.linear(dropped, layer.weight)
            mixed: Tensor = y - own + (own + added) * factors
            return mixed
        bias: Tensor | None = layer.bias
        scaled: Tensor = ((y if bias is None else y - bias) + added) * factors
        return scaled if bias is None else scaled + bias

    layer.forward = forward
