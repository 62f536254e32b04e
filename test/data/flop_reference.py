"""Writes flop_reference.json: the floating point operations of forward and backward that torch's FlopCounterMode counts.

    python test/data/flop_reference.py
"""

import json
import os

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

HERE = os.path.dirname(os.path.abspath(__file__))

# oneDNN's LSTM is one operation without a count; without oneDNN it is a matmul per step and layer.
torch.backends.mkldnn.enabled = False


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(8)
        self.inner = nn.Conv2d(8, 8, 3, padding=1)
        self.down = nn.Conv2d(8, 16, 3, stride=2, padding=1)
        self.head = nn.Linear(16, 5)

    def forward(self, x):
        x = torch.relu(self.norm(self.stem(x)))
        x = torch.relu(self.down(x + self.inner(x)))
        return self.head(x.mean(dim=(2, 3)))


CASES = {
    "Linear": (lambda: nn.Sequential(nn.Linear(48, 96), nn.ReLU(), nn.Linear(96, 10)), (8, 48)),
    "Conv2d": (
        lambda: nn.Sequential(nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.ReLU(), nn.Conv2d(8, 16, 3)),
        (2, 3, 16, 16),
    ),
    "LSTM": (lambda: nn.LSTM(12, 20, num_layers=2, batch_first=True), (4, 7, 12)),
    "Residual": (Residual, (4, 3, 16, 16)),
}


def counted(make, shape):
    with FlopCounterMode(display=False) as counter:
        output = make()(torch.zeros(shape))
        (output[0] if isinstance(output, tuple) else output).sum().backward()
    return counter.get_total_flops()


with open(os.path.join(HERE, "flop_reference.json"), "w") as file:
    json.dump({name: counted(*case) for name, case in CASES.items()}, file, indent=2)
    file.write("\n")
