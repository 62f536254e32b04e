"""Writes resnet_reference.json: torch's losses of a small ResNet with batch norms, and its buffers after the last step.

Parameter p, in torch's order, has scattered(size, p) (model_reference.py), plus 1 for the weight of a norm. Step s has 8 images of
scattered values in [-2, 2); image i has label (7 i + 3) mod 5. SGD with lr 0.05 and momentum 0.9.

    python test/data/resnet_reference.py
"""

import json
import os
import re

import torch
from torch import nn

from layer_reference import numbers, on_one_line, scattered

HERE = os.path.dirname(os.path.abspath(__file__))
STEPS = 6


class Block(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(channels)

    def forward(self, x):
        return torch.relu(x + self.norm2(self.conv2(torch.relu(self.norm1(self.conv1(x))))))


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(4)
        self.first = Block(4)
        self.down = nn.Conv2d(4, 8, 3, stride=2, padding=1)
        self.second = Block(8)
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        x = nn.functional.max_pool2d(torch.relu(self.norm(self.stem(x))), 2)
        x = self.second(self.down(self.first(x)))
        return self.head(nn.functional.adaptive_avg_pool2d(x, 1).flatten(1))


def main():
    model = ResNet()
    with torch.no_grad():
        for place, (name, parameter) in enumerate(model.named_parameters()):
            base = 1 if "norm" in name and name.endswith("weight") else 0
            parameter.copy_(scattered(parameter.numel(), place).reshape(parameter.shape) + base)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    labels = torch.tensor([(7 * i + 3) % 5 for i in range(8)])
    losses = []
    for step in range(STEPS):
        x = scattered(8 * 3 * 8 * 8, 100 + step, 4.0).reshape(8, 3, 8, 8)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), labels)
        loss.backward()
        optimizer.step()
        losses.append(float(f"{loss.item():.9g}"))
    buffers = {name: numbers(buffer) for name, buffer in model.named_buffers()}
    with open(os.path.join(HERE, "resnet_reference.json"), "w") as file:
        made_by = f"test/data/resnet_reference.py, torch {torch.__version__}"
        indented = json.dumps({"made_by": made_by, "losses": losses, "buffers": buffers}, indent=1)
        file.write(re.sub(r"\[[^\[\]{}]*\]", on_one_line, indented) + "\n")


if __name__ == "__main__":
    main()
