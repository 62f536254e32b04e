"""Models as users would write them, with inputs and losses of many forms, and the functions that make their batches."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from parts.towers import Tower

Batch = tuple[object, Tensor]


def drawn(rank: int, index: int) -> torch.Generator:
    """Returns random numbers that are the same whenever a batch is made again."""
    return torch.Generator().manual_seed(1000 * rank + index + 1)


class Mlp(nn.Module):
    """Named inputs, and parameters that no pass reaches."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(7, dim), nn.Linear(dim, dim), nn.Linear(dim, 1)])
        self.spare = nn.Linear(3, 5)

    def forward(self, x: Tensor, scale: Tensor) -> Tensor:
        for layer in self.layers[:-1]:
            x = torch.tanh(layer(x))
        return self.layers[-1](x * scale).squeeze(-1)


def mlp_batches(rank: int, index: int) -> Batch:
    random = drawn(rank, index)
    x = torch.randn(6, 7, generator=random)
    return {"x": x, "scale": torch.rand(6, 1, generator=random)}, x.sum(1).sin()


def huber(output: Tensor, targets: Tensor) -> Tensor:
    return F.huber_loss(output, targets, delta=0.5)


class Cnn(nn.Module):
    """Batch normalization, whose statistics are buffers."""

    def __init__(self, channels: list[int]) -> None:
        super().__init__()
        first, second = channels
        self.conv1 = nn.Conv2d(1, first, 3, padding=1)
        self.norm1 = nn.BatchNorm2d(first)
        self.conv2 = nn.Conv2d(first, second, 3, stride=2)
        self.norm2 = nn.BatchNorm2d(second)
        self.head = nn.Linear(second, 5)
        self.register_buffer("seen", torch.zeros((), dtype=torch.int64))

    def forward(self, images: Tensor) -> Tensor:
        self.seen += len(images)
        x = F.relu(self.norm1(self.conv1(images)))
        x = F.relu(self.norm2(self.conv2(x)))
        return self.head(x.mean((2, 3)))


def cnn_batches(rank: int, index: int) -> Batch:
    random = drawn(rank, index)
    return torch.randn(8, 1, 9, 9, generator=random), torch.randint(0, 5, (8,), generator=random)


class Lstm(nn.Module):
    """Rows of different lengths, as a tuple of ids and lengths."""

    def __init__(self, vocab: int, dim: int) -> None:
        super().__init__()
        self.table = nn.Embedding(vocab, dim)
        self.lstm = nn.LSTM(dim, dim, num_layers=2, batch_first=True)
        self.head = nn.Linear(dim, vocab)

    def forward(self, ids: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        hidden, _ = self.lstm(self.table(ids))
        return self.head(hidden), torch.arange(ids.shape[1]) < lengths[:, None]


def lstm_batches(rank: int, index: int) -> Batch:
    random = drawn(rank, index)
    ids = torch.randint(0, 11, (4, 9), generator=random)
    return (ids[:, :-1], torch.randint(3, 9, (4,), generator=random)), ids[:, 1:]


def masked(output: tuple[Tensor, Tensor], targets: Tensor) -> Tensor:
    logits, mask = output
    return F.cross_entropy(logits[mask], targets[mask])


class Transformer(nn.Module):
    """A tied head, dropout, and a forward that returns the loss."""

    def __init__(self, vocab: int, dim: int) -> None:
        super().__init__()
        self.table = nn.Embedding(vocab, dim)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(dim, 2, 2 * dim, dropout=0.1, batch_first=True, norm_first=True) for _ in range(2)
        )
        self.head = nn.Linear(dim, vocab, bias=False)
        self.head.weight = self.table.weight
        self.register_buffer("mask", torch.full((8, 8), float("-inf")).triu(1), persistent=False)

    def forward(self, input_ids: Tensor, labels: Tensor) -> dict[str, Tensor]:
        x = self.table(input_ids)
        for block in self.blocks:
            x = block(x, src_mask=self.mask)
        logits = self.head(x)
        return {"logits": logits, "loss": F.cross_entropy(logits.flatten(0, 1), labels.flatten())}


def transformer_batches(rank: int, index: int) -> dict[str, Tensor]:
    ids = torch.randint(0, 13, (3, 9), generator=drawn(rank, index))
    return {"input_ids": ids[:, :-1], "labels": ids[:, 1:]}


class TwoTowers(nn.Module):
    """Two inputs, each through a mixture of experts in a file beside this one."""

    def __init__(self, dim: int, experts: int) -> None:
        super().__init__()
        self.users = Tower(5, dim, experts)
        self.items = Tower(3, dim, experts)

    def forward(self, user: dict[str, Tensor], item: Tensor) -> Tensor:
        return (self.users(user["age"] + user["place"]) * self.items(item)).sum(-1)


def towers_batches(rank: int, index: int) -> Batch:
    random = drawn(rank, index)
    age, place, item = (torch.randn(10, size, generator=random) for size in (5, 5, 3))
    return {"user": {"age": age, "place": place}, "item": item}, (age.sum(1) * item.sum(1)).tanh()
