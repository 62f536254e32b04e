"""Activations, for towers.py."""

from torch import Tensor


def squared_relu(x: Tensor) -> Tensor:
    return x.relu().square()
