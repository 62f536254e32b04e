"""Models that have a twin in TypeScript, with the layers of test/data/flop_reference.py, and models that cannot run on shapes."""

import torch
from torch import Tensor, nn

Batch = tuple[Tensor, None]


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(8)
        self.inner = nn.Conv2d(8, 8, 3, padding=1)
        self.down = nn.Conv2d(8, 16, 3, stride=2, padding=1)
        self.head = nn.Linear(16, 5)

    def forward(self, x: Tensor) -> Tensor:
        print("a print of the user's")
        x = torch.relu(self.norm(self.stem(x)))
        x = torch.relu(self.down(x + self.inner(x)))
        return self.head(x.mean(dim=(2, 3)))


def linear() -> nn.Module:
    return nn.Sequential(nn.Linear(48, 96), nn.ReLU(), nn.Linear(96, 10))


def conv() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.ReLU(), nn.Conv2d(8, 16, 3))


def lstm() -> nn.Module:
    return nn.LSTM(12, 20, num_layers=2, batch_first=True)


def summed(output: object, _: None) -> Tensor:
    return (output[0] if isinstance(output, tuple) else output).sum()


def rows(rank: int, index: int) -> Batch:
    return torch.zeros(8, 48), None


def small_images(rank: int, index: int) -> Batch:
    return torch.zeros(2, 3, 16, 16), None


def images(rank: int, index: int) -> Batch:
    return torch.zeros(4, 3, 16, 16), None


def series(rank: int, index: int) -> Batch:
    return torch.zeros(4, 7, 12), None


class Branching(nn.Module):
    """Its work depends on values."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(48, 48)

    def forward(self, x: Tensor) -> Tensor:
        if x.sum() > 0:
            x = -x
        return self.layer(x)


class Drawn(nn.Module):
    """Its constructor reads values, so it is made with values; a weight is tied."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = float(torch.ones(3).sum())
        self.layer = nn.Linear(48, 48)
        self.twin = nn.Linear(48, 48, bias=False)
        self.twin.weight = self.layer.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.twin(self.layer(x)) * self.scale


class Failing(Branching):
    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x[:, 1:])


class Sleeping(Branching):
    """It never ends."""

    def forward(self, x: Tensor) -> Tensor:
        import time

        while True:
            time.sleep(0.1)
