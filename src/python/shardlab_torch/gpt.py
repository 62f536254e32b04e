"""The GPT of shardlab, with its parameter names and numerics: pre-norm, learned positions, tanh-GELU, no dropout."""

from __future__ import annotations


import torch.nn.functional as F
from torch import Tensor, nn

from .errors import Json
from .head import head_output, needs


class Block(nn.Module):
    """A pre-norm transformer block. Shapes: x [B, T, d] → the same."""

    def __init__(self, dim: int, heads: int, ffn: int) -> None:
        super().__init__()
        self.head_dim = dim // heads
        self.ln1, self.ln2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.fc1, self.fc2 = nn.Linear(dim, ffn), nn.Linear(ffn, dim)

    def forward(self, x: Tensor) -> Tensor:
        batch, seq, _ = x.shape
        # Under tensor parallelism, qkv returns only this rank's heads.
        parts = self.qkv(self.ln1(x)).chunk(3, dim=-1)
        q, k, v = (part.reshape(batch, seq, -1, self.head_dim).transpose(1, 2) for part in parts)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(mixed.transpose(1, 2).reshape(batch, seq, -1))
        hidden = F.gelu(self.fc1(self.ln2(x)), approximate="tanh")
        out: Tensor = x + self.fc2(hidden)
        return out


class GPT(nn.Module):
    """
    A language model, or a stage of it: `layers` are the indices of its blocks.
    Shapes: ids [B, T] (on the first stage) or x [B, T, d] → logits [B, T, vocab] (on the last stage) or x.
    """

    def __init__(self, shape: Json, layers: range, is_first: bool, is_last: bool) -> None:
        super().__init__()
        dim, vocab = shape["dim"], shape["vocab"]
        tied = shape.get("tied", True)
        ffn = needs(shape, "ffn", 4 * dim)
        if is_first or (is_last and tied):
            self.wte = nn.Embedding(vocab, dim)
        if is_first:
            self.wpe = nn.Embedding(shape["seq"], dim)
        self.blocks = nn.ModuleDict({str(i): Block(dim, shape["heads"], ffn) for i in layers})
        if is_last:
            self.ln_f = nn.LayerNorm(dim)
        self.lm_head = nn.Linear(dim, vocab, bias=False) if is_last and not tied else None
        self.is_first, self.is_last = is_first, is_last

    @property
    def layers(self) -> nn.ModuleDict:
        """The blocks, by their index in the whole model."""
        return self.blocks

    def forward(self, x: Tensor) -> Tensor:
        if self.is_first:
            x = self.wte(x) + self.wpe.weight[: x.shape[1]]
        for block in self.layers.values():
            x = block(x)
        if not self.is_last:
            return x
        return head_output(self.ln_f(x), self.lm_head or self.wte.weight)


def tied_name(shape: Json) -> str | None:
    """Returns the name of the parameter that the first and the last stage share; None: there is none."""
    return "wte.weight" if shape.get("tied", True) else None


