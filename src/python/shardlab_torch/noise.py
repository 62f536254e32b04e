"""
The noise of the router 'temperature', and the streams of random numbers from which dropout draws too. The noise is a function of
the seed, the gate and the tokens, so ranks of this library and of PyTorch draw the same noise.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

_MASK = 0xFFFFFFFF
_STEP = 0x9E3779B9


def token_keys(ids: Tensor) -> Tensor:
    """Returns a key per token, made from this token and all earlier ones. Shapes: [B, T]. Source: src/nn/moe/row-keys.ts."""
    key = torch.zeros_like(ids[:, 0])
    keys = []
    for column in ids.unbind(1):
        key = _mixed(key ^ column)
        keys.append(key)
    return torch.stack(keys, 1)


def gumbel_noise(keys: Tensor, salt: int, experts: int) -> Tensor:
    """Returns noise per row and expert. Shapes: keys [rows] → [rows, experts]. Source: src/nn/moe/temperature-gating.ts."""
    cells = _mixed(keys ^ salt).unsqueeze(1) + torch.arange(experts, device=keys.device)
    uniform = (_mixed(cells).double() + 0.5) / 2**32
    return -torch.log(-torch.log(uniform)).float()


def salt_of(seed: int, gate: str) -> int:
    """Returns the number that makes the noise of a gate differ from the noise of other gates."""
    return drawn(seed, "gating", gate)[0]


def drawn(seed: int, *labels: object, count: int = 1) -> list[int]:
    """
    Returns the first numbers of 32 bits of a seed's stream; other labels give other streams. Source: sfc32, as in
    src/core/random.ts.
    """
    state = seed & _MASK
    for character in "\0".join(map(str, labels)):
        state = _mixed(state ^ ord(character))
    a, b, c = (_mixed(state + i * _STEP) for i in range(3))
    numbers = []
    for counter in range(1, 13 + count):
        number = (a + b + counter) & _MASK
        a, b, c = b ^ (b >> 9), (c + (c << 3)) & _MASK, (((c << 21) | (c >> 11)) + number) & _MASK
        numbers.append(number)
    return numbers[12:]


def _mixed(value: Any) -> Any:
    """Hashes numbers of 32 bits. Source: splitmix32."""
    z = (value + _STEP) & _MASK
    z = ((z ^ (z >> 16)) * 0x21F0AAAD) & _MASK
    z = ((z ^ (z >> 15)) * 0x735A2D97) & _MASK
    return z ^ (z >> 15)
