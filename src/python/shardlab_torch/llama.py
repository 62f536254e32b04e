"""The Llama of shardlab (also Mistral and Qwen2), with the parameter names of Hugging Face's LlamaForCausalLM."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .attention import Attend, Positions, causal_attention, from_begin, rows_at
from .errors import Json
from .head import head_output, needs


class RMSNorm(nn.Module):
    """Divides rows by their root mean square, then scales them."""

    def __init__(self, dim: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        wide = x.float()
        scaled = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)
        return scaled.to(x.dtype) * self.weight


def frequencies(pairs: int, theta: float, device: torch.device) -> Tensor:
    """Returns the angle per position of each pair. Source: Su et al. 2021, section 3.2.2."""
    steps = torch.arange(pairs, device=device, dtype=torch.float64)
    return (theta ** (-steps / pairs)).float()


def rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotates pairs (i, i + P) of each head by the angles of their position. Shapes: x [B, H, T, 2P], cos and sin [T, P]."""
    a, b = x.float().chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1).to(x.dtype)


class Attention(nn.Module):
    """Causal attention with rotary positions and heads in groups. Shapes: x [B, T, d] → the same."""

    def __init__(self, shape: Json) -> None:
        super().__init__()
        dim, heads = shape["dim"], shape["heads"]
        kv_heads = needs(shape, "kvHeads", heads)
        bias = shape["qkvBias"]
        self.head_dim = dim // heads
        self.q_proj = nn.Linear(dim, dim, bias=bias)
        self.k_proj = nn.Linear(dim, self.head_dim * kv_heads, bias=bias)
        self.v_proj = nn.Linear(dim, self.head_dim * kv_heads, bias=bias)
        self.o_proj = nn.Linear(dim, dim, bias=False)
        # Context parallelism replaces this function.
        self.attend: Attend = causal_attention

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        layers = (self.q_proj, self.k_proj, self.v_proj)
        q, k, v = (layer(x).unflatten(-1, (-1, self.head_dim)).transpose(1, 2) for layer in layers)
        mixed = self.attend(rotated(q, cos, sin), rotated(k, cos, sin), v)
        out: Tensor = self.o_proj(mixed.transpose(1, 2).flatten(2))
        return out


class SwiGLU(nn.Module):
    """Returns down(silu(gate(x)) · up(x))."""

    def __init__(self, dim: int, ffn: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(dim, ffn, bias=False)
        self.up_proj = nn.Linear(dim, ffn, bias=False)
        self.down_proj = nn.Linear(ffn, dim, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))
        return out


class LlamaBlock(nn.Module):
    """A pre-norm block with RMSNorm, rotary positions and SwiGLU. Shapes: x [B, T, d] → the same."""

    def __init__(self, shape: Json) -> None:
        super().__init__()
        dim, eps = shape["dim"], shape["normEps"]
        self.theta = shape["ropeTheta"]
        self.self_attn = Attention(shape)
        self.mlp = SwiGLU(dim, needs(shape, "ffn", 256 * math.ceil(8 * dim / 3 / 256)))
        self.input_layernorm = RMSNorm(dim, eps)
        self.post_attention_layernorm = RMSNorm(dim, eps)
        # Context parallelism replaces this function.
        self.positions: Positions = from_begin

    def forward(self, x: Tensor) -> Tensor:
        positions = self.positions(x.shape[1])
        places = torch.arange(max(each.stop for each in positions), device=x.device, dtype=torch.float32)
        angles = torch.outer(rows_at(places, positions), frequencies(self.self_attn.head_dim // 2, self.theta, x.device))
        x = x + self.self_attn(self.input_layernorm(x), angles.cos(), angles.sin())
        out: Tensor = x + self.mlp(self.post_attention_layernorm(x))
        return out


class LlamaModel(nn.Module):
    """The containers of a Llama's layers, which give the parameters their names."""

    embed_tokens: nn.Embedding
    layers: nn.ModuleDict
    norm: RMSNorm


class Llama(nn.Module):
    """
    A language model, or a stage of it: `layers` are the indices of its blocks.
    Shapes: ids [B, T] (on the first stage) or x [B, T, d] → logits [B, T, vocab] (on the last stage) or x.
    """

    def __init__(self, shape: Json, layers: range, is_first: bool, is_last: bool) -> None:
        super().__init__()
        dim, vocab, tied = shape["dim"], shape["vocab"], shape["tied"]
        self.model = LlamaModel()
        if is_first or (is_last and tied):
            self.model.embed_tokens = nn.Embedding(vocab, dim)
        self.model.layers = nn.ModuleDict({str(i): LlamaBlock(shape) for i in layers})
        if is_last:
            self.model.norm = RMSNorm(dim, shape["normEps"])
        self.lm_head = nn.Linear(dim, vocab, bias=False) if is_last and not tied else None
        self.is_first, self.is_last = is_first, is_last

    @property
    def layers(self) -> nn.ModuleDict:
        """The blocks, by their index in the whole model."""
        return self.model.layers

    def forward(self, x: Tensor) -> Tensor:
        if self.is_first:
            x = self.model.embed_tokens(x)
        for block in self.layers.values():
            x = block(x)
        if not self.is_last:
            return x
        return head_output(self.model.norm(x), self.lm_head or self.model.embed_tokens.weight)
