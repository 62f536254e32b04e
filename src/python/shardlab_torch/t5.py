"""The text encoder of Wan2.2 (UMT5's), with its parameter names."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .errors import Json
from .llama import RMSNorm

# The number that is added to scores of padding, so that softmax returns 0. Source: Hugging Face's and Wan2.2's masks, in float32.
_HIDDEN = -1e9


class RelativePositions(nn.Module):
    """
    A bias of attention scores that depends on the distance between key and query; keys before and after the query have different
    buckets. Shapes: x [B, T, …] (only T is used) → [heads, T, T]. Source: Raffel et al. 2020, section 2.1; as src/nn/t5-block.ts.
    """

    def __init__(self, shape: Json) -> None:
        super().__init__()
        self.of_side, self.farthest = int(shape["relativeBuckets"]) // 2, int(shape["relativeDistance"])
        self.embedding = nn.Embedding(shape["relativeBuckets"], shape["heads"])

    def forward(self, x: Tensor) -> Tensor:
        places = torch.arange(x.shape[1], device=x.device)
        distances = places - places.unsqueeze(1)
        by_distance = torch.tensor([self._bucket(distance) for distance in range(x.shape[1])], device=x.device)
        bias: Tensor = self.embedding(by_distance[distances.abs()] + self.of_side * (distances > 0))
        return bias.permute(2, 0, 1)

    def _bucket(self, distance: int) -> int:
        """Returns the bucket of a distance: each small one has its own, larger ones share buckets logarithmically."""
        exact = self.of_side // 2
        if distance < exact:
            return distance
        per_log = (self.of_side - exact) / math.log(self.farthest / exact)
        return min(self.of_side - 1, exact + math.floor(math.log(distance / exact) * per_log))


class T5Attention(nn.Module):
    """Attention with a bias and without a scale of scores. Shapes: x [B, T, d], bias [B, heads, T, T] → [B, T, d]."""

    def __init__(self, shape: Json) -> None:
        super().__init__()
        dim, self.heads = shape["dim"], shape["heads"]
        inner = shape.get("attnDim") or dim
        self.q, self.k, self.v = (nn.Linear(dim, inner, bias=False) for _ in range(3))
        self.o = nn.Linear(inner, dim, bias=False)

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        q, k, v = (part(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in (self.q, self.k, self.v))
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=bias.to(q.dtype), scale=1.0)
        out: Tensor = self.o(mixed.transpose(1, 2).flatten(2))
        return out


class GatedGelu(nn.Module):
    """Returns fc2(gelu(gate(x)) · fc1(x)). Shapes: x [B, T, d] → the same. Source: Shazeer 2020."""

    def __init__(self, shape: Json) -> None:
        super().__init__()
        dim, ffn = shape["dim"], shape["ffn"]
        self.gate = nn.Sequential(nn.Linear(dim, ffn, bias=False), nn.GELU("tanh"))
        self.fc1, self.fc2 = nn.Linear(dim, ffn, bias=False), nn.Linear(ffn, dim, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.fc2(self.gate(x) * self.fc1(x))
        return out


class T5Block(nn.Module):
    """
    A pre-norm encoder block with its own relative positions; `hidden` is added to scores. Shapes: x [B, T, d],
    hidden [B, 1, 1, T] → [B, T, d].
    """

    def __init__(self, shape: Json) -> None:
        super().__init__()
        dim, eps = shape["dim"], shape["normEps"]
        self.norm1, self.norm2 = RMSNorm(dim, eps), RMSNorm(dim, eps)
        self.attn, self.ffn = T5Attention(shape), GatedGelu(shape)
        self.pos_embedding = RelativePositions(shape)

    def forward(self, x: Tensor, hidden: Tensor) -> Tensor:
        x = x + self.attn(self.norm1(x), self.pos_embedding(x) + hidden)
        out: Tensor = x + self.ffn(self.norm2(x))
        return out


class T5Encoder(nn.Module):
    """The encoder. Shapes: ids [B, T], seen [B, T] (0 for padding) → [B, T, d]. Source: as src/nn/models/t5-encoder.ts."""

    def __init__(self, shape: Json) -> None:
        super().__init__()
        self.token_embedding = nn.Embedding(shape["vocab"], shape["dim"])
        self.blocks = nn.ModuleList([T5Block(shape) for _ in range(shape["layers"])])
        self.norm = RMSNorm(shape["dim"], shape["normEps"])

    def forward(self, ids: Tensor, seen: Tensor) -> Tensor:
        hidden = ((1 - seen) * _HIDDEN)[:, None, None, :]
        x = self.token_embedding(ids)
        for block in self.blocks:
            x = block(x, hidden)
        out: Tensor = self.norm(x)
        return out
