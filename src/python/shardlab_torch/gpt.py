"""The GPT of shardlab, with its parameter names and numerics: pre-norm, learned positions, tanh-GELU, no dropout."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from .attention import Attend, Positions, causal_attention, from_begin, rows_at
from .errors import Json
from .head import head_output, needs


class AttentionBlock(nn.Module):
    """A pre-norm transformer block, whose subclasses define the feed-forward layer. Shapes: x [B, T, d] → the same."""

    def __init__(self, shape: Json) -> None:
        super().__init__()
        dim: int = shape["dim"]
        self.head_dim = dim // shape["heads"]
        self.ln1, self.ln2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        # Context parallelism replaces this function.
        self.attend: Attend = causal_attention

    def feed(self, x: Tensor) -> Tensor:
        """Computes the layer after attention, the feed-forward layer. Shapes: [B, T, d] → the same."""
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        # Under tensor parallelism, qkv returns only this rank's heads.
        parts = self.qkv(self.ln1(x)).chunk(3, dim=-1)
        q, k, v = (part.unflatten(-1, (-1, self.head_dim)).transpose(1, 2) for part in parts)
        x = x + self.proj(self.attend(q, k, v).transpose(1, 2).flatten(2))
        return x + self.feed(self.ln2(x))


class Block(AttentionBlock):
    """A block whose feed-forward layer is a linear layer, GELU and another linear layer."""

    def __init__(self, shape: Json) -> None:
        super().__init__(shape)
        dim, ffn = shape["dim"], needs(shape, "ffn", 4 * shape["dim"])
        self.fc1, self.fc2 = nn.Linear(dim, ffn), nn.Linear(ffn, dim)

    def feed(self, x: Tensor) -> Tensor:
        out: Tensor = self.fc2(F.gelu(self.fc1(x), approximate="tanh"))
        return out


class GPT(nn.Module):
    """
    A language model, or a stage of it: `layers` are the indices of its blocks.
    Shapes: ids [B, T] (on the first stage) or x [B, T, d] → logits [B, T, vocab] (on the last stage) or x.
    """

    block: Any = Block

    def __init__(self, shape: Json, layers: range, is_first: bool, is_last: bool) -> None:
        super().__init__()
        dim, vocab, tied = shape["dim"], shape["vocab"], shape["tied"]
        if is_first or (is_last and tied):
            self.wte = nn.Embedding(vocab, dim)
        if is_first:
            self.wpe = nn.Embedding(shape["seq"], dim)
        self.blocks = nn.ModuleDict({str(i): self.block(shape) for i in layers})
        if is_last:
            self.ln_f = nn.LayerNorm(dim)
        self.lm_head = nn.Linear(dim, vocab, bias=False) if is_last and not tied else None
        self.is_first, self.is_last = is_first, is_last
        # Context parallelism replaces this function.
        self.positions: Positions = from_begin

    @property
    def layers(self) -> nn.ModuleDict:
        """The blocks, by their index in the whole model."""
        return self.blocks

    def forward(self, x: Tensor) -> Tensor:
        if self.is_first:
            x = self.wte(x) + rows_at(self.wpe.weight, self.positions(x.shape[1]))
        for block in self.layers.values():
            x = block(x)
        if not self.is_last:
            return x
        return head_output(self.ln_f(x), self.lm_head or self.wte.weight)


