"""A tower of experts, for own_inputs.py."""

import torch
from torch import Tensor, nn

from .activations import squared_relu


class Tower(nn.Module):
    """All experts see all rows; a gate weighs the two best of them. Shapes: x [B, size] → [B, dim]."""

    def __init__(self, size: int, dim: int, experts: int) -> None:
        super().__init__()
        self.gate = nn.Linear(size, experts)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(size, dim), nn.Tanh(), nn.Linear(dim, dim)) for _ in range(experts))

    def forward(self, x: Tensor) -> Tensor:
        scores = self.gate(x).softmax(-1)
        weights = torch.where(scores >= scores.topk(2).values[:, -1:], scores, 0)
        outputs = torch.stack([expert(x) for expert in self.experts], 1)
        return squared_relu((weights[..., None] * outputs).sum(1) + 0.5)
