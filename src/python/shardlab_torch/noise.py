"""
The noise of the router 'temperature'. It is a function of the seed, the gate and the tokens, so ranks of this library and of
PyTorch draw the same noise.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .seeded import drawn, mixed


def token_keys(ids: Tensor) -> Tensor:
    """Returns a key per token, made from this token and all earlier ones. Shapes: [B, T]. Source: src/nn/moe/row-keys.ts."""
    key = torch.zeros_like(ids[:, 0])
    keys = []
    for column in ids.unbind(1):
        key = mixed(key ^ column)
        keys.append(key)
    return torch.stack(keys, 1)


def gumbel_noise(keys: Tensor, salt: int, experts: int) -> Tensor:
    """Returns noise per row and expert. Shapes: keys [rows] → [rows, experts]. Source: src/nn/moe/temperature-gating.ts."""
    cells = mixed(keys ^ salt).unsqueeze(1) + torch.arange(experts, device=keys.device)
    uniform = (mixed(cells).double() + 0.5) / 2**32
    return -torch.log(-torch.log(uniform)).float()


def salt_of(seed: int, gate: str) -> int:
    """Returns the number that makes the noise of a gate differ from the noise of other gates."""
    return next(drawn(seed, "gating", gate))
