"""Models as users would write them. GPT is that of shardlab, with the same names of parameters."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Block(nn.Module):
    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.ln1 = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.ln2 = nn.LayerNorm(dim)
        self.fc1 = nn.Linear(dim, 4 * dim)
        self.fc2 = nn.Linear(4 * dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (each.unflatten(-1, (self.heads, -1)).transpose(1, 2) for each in self.qkv(self.ln1(x)).chunk(3, dim=-1))
        x = x + self.proj(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.fc2(F.gelu(self.fc1(self.ln2(x)), approximate="tanh"))


class GPT(nn.Module):
    """Shapes: tokens [B, T] → logits [B, T, vocab]."""

    def __init__(self, layers: int, dim: int, heads: int, vocab: int, seq: int) -> None:
        super().__init__()
        self.wte = nn.Embedding(vocab, dim)
        self.wpe = nn.Embedding(seq, dim)
        self.blocks = nn.ModuleList(Block(dim, heads) for _ in range(layers))
        self.ln_f = nn.LayerNorm(dim)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.wte(tokens) + self.wpe.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return F.linear(self.ln_f(x), self.wte.weight)


@dataclass
class Output:
    """What models of transformers return, in short."""

    logits: Tensor
    loss: Tensor | None = None


class NamedGPT(GPT):
    """A GPT whose result has a name."""

    def forward(self, tokens: Tensor) -> Output:  # type: ignore[override]
        return Output(super().forward(tokens))


class Convolution(nn.Module):
    """A convolution over the last tokens, with normalization, whose statistics are buffers."""

    def __init__(self, dim: int, vocab: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab, dim)
        self.conv = nn.Conv1d(dim, dim, 3)
        self.norm = nn.BatchNorm1d(dim)
        self.head = nn.Linear(dim, vocab)
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def forward(self, tokens: Tensor) -> Tensor:
        if self.training:
            self.steps += 1
        x = F.pad(self.embedding(tokens).transpose(1, 2), (2, 0))
        return self.head(F.relu(self.norm(self.conv(x))).transpose(1, 2))


class Recurrent(nn.Module):
    """A language model of a GRU."""

    def __init__(self, vocab: int, dim: int) -> None:
        super().__init__()
        self.table = nn.Embedding(vocab, dim)
        self.gru = nn.GRU(dim, dim, num_layers=2, batch_first=True)
        self.head = nn.Linear(dim, vocab)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.gru(self.table(tokens))[0])
