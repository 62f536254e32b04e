"""The seeded generator of random numbers of src/core/random.ts, so that ranks of this library and of PyTorch draw the same numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

_MASK = 0xFFFFFFFF
_STEP = 0x9E3779B9
_SKIPPED = 12


def mixed(value: Any) -> Any:
    """Hashes numbers of 32 bits. Source: splitmix32."""
    z = (value + _STEP) & _MASK
    z = ((z ^ (z >> 16)) * 0x21F0AAAD) & _MASK
    z = ((z ^ (z >> 15)) * 0x735A2D97) & _MASK
    return z ^ (z >> 15)


def drawn(seed: int, *labels: object) -> Iterator[int]:
    """Yields numbers of 32 bits; different labels give independent streams. Source: sfc32, as in src/core/random.ts."""
    state = seed & _MASK
    for character in "\0".join(map(str, labels)):
        state = mixed(state ^ ord(character))
    a, b, c = (mixed(state + i * _STEP) for i in range(3))
    counter = 0
    while True:
        counter += 1
        value = (a + b + counter) & _MASK
        a, b, c = b ^ (b >> 9), (c + (c << 3)) & _MASK, (((c << 21) | (c >> 11)) + value) & _MASK
        if counter > _SKIPPED:
            yield value


def normals(seed: int, *labels: object) -> Iterator[float]:
    """Yields standard normal numbers (Box-Muller)."""
    uniform = (value / 2**32 for value in drawn(seed, *labels))
    while True:
        yield math.sqrt(-2 * math.log(1 - next(uniform))) * math.cos(2 * math.pi * next(uniform))
