"""Rows of the layers and models that torch.nn does not have: their modules of PyTorch are those of the ranks of engine 'torch'."""

import math

import torch
import torch.nn.functional as F
from shardlab_torch import dit, gpt, llama, moe
from torch import nn

from .modules import OWN, layer
from .rows import INF, NAN, f, i, ramp

# The relative error of a model's sums, which both sides add in their own order.
TOLERANCE = 3e-5


class CausalSelfAttention(nn.Module):
    def __init__(self, heads, kind="eager"):
        super().__init__()
        self.heads = heads

    def forward(self, qkv):
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in qkv.chunk(3, -1))
        # torch's scaled_dot_product_attention returns 0 for a query of NaN, and a softmax returns NaN.
        scores = q @ k.transpose(2, 3) / q.shape[-1] ** 0.5
        hidden = torch.ones(scores.shape[2:], dtype=torch.bool).triu(1)
        return (scores.masked_fill(hidden, -INF).softmax(-1) @ v).transpose(1, 2).flatten(2)


class LlamaBlock(llama.LlamaBlock):
    def __init__(self, shape):
        super().__init__({**shape, "normEps": shape["eps"], "ropeTheta": 10000})

    def forward(self, x, cos, sin):
        x = x + self.self_attn(self.input_layernorm(x), cos, sin)
        return x + self.mlp(self.post_attention_layernorm(x))


class DitBlock(dit.DitBlock):
    def forward(self, x, time, text, cos, sin, audio=None):
        return super().forward(x, time, text, cos, sin, audio)


class T5Block(nn.Module):
    """A block of Hugging Face's UMT5EncoderModel, without its mask."""

    def __init__(self, shape):
        super().__init__()
        dim, width, self.heads = shape["dim"], shape["attnDim"], shape["heads"]
        self.buckets, self.distance = shape["relativeBuckets"], shape["relativeDistance"]
        self.norm1 = llama.RMSNorm(dim, shape["normEps"])
        self.q, self.k, self.v = (nn.Linear(dim, width, bias=False) for _ in range(3))
        self.o = nn.Linear(width, dim, bias=False)
        self.norm2 = llama.RMSNorm(dim, shape["normEps"])
        self.gate, self.fc1 = (nn.Linear(dim, shape["ffn"], bias=False) for _ in range(2))
        self.fc2 = nn.Linear(shape["ffn"], dim, bias=False)
        self.embedding = nn.Embedding(self.buckets, self.heads)

    def bucket(self, distance):
        """Source: Hugging Face's UMT5Attention._relative_position_bucket."""
        half, size = self.buckets // 2, abs(distance)
        exact = half // 2
        if size >= exact:
            size = min(half - 1, exact + int(math.log(size / exact) / math.log(self.distance / exact) * (half - exact)))
        return size + (half if distance > 0 else 0)

    def forward(self, x, hidden):
        places = range(x.shape[1])
        buckets = torch.tensor([[self.bucket(key - query) for key in places] for query in places])
        y = self.norm1(x)
        q, k, v = (part(y).unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in (self.q, self.k, self.v))
        mask = self.embedding(buckets).permute(2, 0, 1) + hidden
        x = x + self.o(F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=1.0).transpose(1, 2).flatten(2))
        y = self.norm2(x)
        return x + self.fc2(F.gelu(self.gate(y), approximate="tanh") * self.fc1(y))


class T5Encoder(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.token_embedding = nn.Embedding(shape["vocab"], shape["dim"])
        self.blocks = nn.ModuleList(T5Block(shape) for _ in range(shape["layers"]))
        self.norm = llama.RMSNorm(shape["dim"], shape["normEps"])

    def forward(self, ids, mask=None):
        seen = torch.ones(ids.shape) if mask is None else mask
        x = self.token_embedding(ids)
        for block in self.blocks:
            x = block(x, ((1 - seen) * -1e9)[:, None, None])
        return self.norm(x)


def language_model(kind):
    return lambda shape: kind({"tied": True, **shape}, range(shape["layers"]), True, True)


OWN.update(
    CausalSelfAttention=CausalSelfAttention,
    Block=gpt.Block,
    FeedForward=moe.FeedForward,
    MixtureOfExperts=moe.MixtureOfExperts,
    MoeBlock=lambda shape, mixture: moe.MoeBlock({**shape, **mixture}),
    DitBlock=lambda shape, options=None: DitBlock(shape, bool(options and options["hasAudio"])),
    LlamaBlock=LlamaBlock,
    Dit=dit.Dit,
    GPT=language_model(gpt.GPT),
    MoeGPT=language_model(moe.MoeGPT),
    Llama=language_model(llama.Llama),
    T5Encoder=T5Encoder,
)

# Attention, and blocks of a GPT.
for kind in ["eager", "flash"]:
    for heads, shape in [(2, [2, 3, 12]), (1, [1, 1, 3]), (2, [1, 5, 6]), (2, [0, 3, 12]), (2, [2, 0, 12])]:
        layer("CausalSelfAttention", [heads, kind], ramp(shape, 4, -2), tol=TOLERANCE)
    layer("CausalSelfAttention", [1, kind], f([1.0, 2.0, 3.0, NAN, 1.0, 1.0], [1, 2, 3]), grad=False)
    layer("CausalSelfAttention", [1, kind], ramp([1, 4, 6], 200, -100), tol=TOLERANCE)
    for sizes, shape in [(dict(dim=4, heads=2), [2, 3, 4]), (dict(dim=4, heads=1, ffn=3), [1, 1, 4])]:
        layer("Block", [{**sizes, "attention": kind}], ramp(shape, 3, -1), tol=TOLERANCE)
layer("Block", [dict(dim=2, heads=1)], f([NAN, 1.0, 2.0, 3.0], [1, 2, 2]), grad=False)

# Experts. Rows of zeros have equal logits; a small capacity drops rows.
for shape in [[3, 4], [1, 4], [0, 4]]:
    layer("FeedForward", [4], ramp(shape, 3, -1), tol=TOLERANCE)
layer("FeedForward", [1], f([NAN, INF, 2.0], [3, 1]), grad=False)
for options in [
    dict(router="topk", topK=2, capacityFactor=None),
    dict(router="topk", topK=3, capacityFactor=None),
    dict(router="topk", topK=2, capacityFactor=0.5),
    dict(router="switch", topK=1, capacityFactor=1.25),
    dict(router="switch", topK=1, capacityFactor=0.25),
    dict(router="expert-choice", topK=2, capacityFactor=1),
]:
    mixture = dict(dim=2, experts=3, auxLossWeight=0, **options)
    layer("MixtureOfExperts", [mixture], ramp([2, 3, 2], 6, -3), tol=TOLERANCE)
    # Experts without rows have no gradient here, and zeros in torch.
    for x in [ramp([1, 1, 2], 3, -1), f([0.0] * 8, [1, 4, 2])]:
        layer("MixtureOfExperts", [mixture], x, tol=TOLERANCE, grad=False)
    if options["topK"] == 2:
        layer("MoeBlock", [dict(heads=1), mixture], ramp([2, 3, 2], 6, -3), tol=TOLERANCE)

# Blocks and models with rotary positions.
for kind, sizes in [("eager", dict(kvHeads=4, qkvBias=False)), ("flash", dict(kvHeads=2, qkvBias=True)), ("eager", dict(kvHeads=2, qkvBias=True)), ("flash", dict(kvHeads=1, qkvBias=False))]:
    shape = dict(dim=8, heads=4, ffn=3, eps=1e-5, attention=kind, **sizes)
    layer("LlamaBlock", [shape], ramp([2, 3, 8], 3, -1), ramp([3, 1], 2, -1), ramp([3, 1], -2, 1), tol=TOLERANCE)
layer("LlamaBlock", [dict(dim=4, heads=2, kvHeads=1, ffn=1, qkvBias=False, eps=1e-5, attention="eager")], ramp([1, 1, 4], 3, -1), ramp([1, 1]), ramp([1, 1], -1), tol=TOLERANCE)

IDS = [([3, 0, 6, 3, 1, 2], [2, 3]), ([5], [1, 1])]
for labels, size in IDS:
    for tied in [True, False]:
        sizes = dict(layers=1, dim=4, heads=2, vocab=7, seq=3, tied=tied)
        layer("GPT", [sizes], i(labels, size), tol=TOLERANCE)
        layer("Llama", [{**sizes, "kvHeads": 1, "ffn": 5, "qkvBias": not tied, "normEps": 1e-5, "ropeTheta": 10000}], i(labels, size), tol=TOLERANCE)
    layer("MoeGPT", [dict(layers=1, dim=4, heads=2, vocab=7, seq=3, experts=3, router="topk", topK=2, capacityFactor=None, auxLossWeight=0)], i(labels, size), tol=1e-4, grad=len(labels) > 1)
layer("GPT", [dict(layers=1, dim=2, heads=1, vocab=3, seq=2)], i([0, 3], [1, 2]))

# The encoder of texts; rows of a mask of zeros are padding.
TEXTS = dict(layers=2, dim=3, attnDim=2, heads=2, ffn=2, vocab=7, normEps=1e-6)
for buckets, distance in [(8, 4), (8, 16), (4, 3)]:
    sizes = {**TEXTS, "relativeBuckets": buckets, "relativeDistance": distance}
    layer("T5Encoder", [sizes], i([3, 0, 6, 1, 2, 5, 5, 5, 1, 0, 4, 2, 6, 1], [2, 7]), tol=TOLERANCE)
    layer("T5Encoder", [sizes], i([3, 0, 6, 3, 1, 2], [2, 3]), f([1.0, 1.0, 0.0, 1.0, 0.0, 0.0], [2, 3]), tol=TOLERANCE)

# The transformer of videos. The gradients of its embeddings are small differences of large numbers.
VIDEO = dict(layers=1, dim=6, heads=1, ffn=3, latent=[1, 2, 2], patch=[1, 2, 2], inChannels=1, outChannels=2, freqDim=2, textDim=3, textLen=2, experts=1, boundary=0.875, normEps=1e-6, audioDim=3, audioTokens=2)
for kind in ["eager", "flash"]:
    shape = {**VIDEO, "attention": kind, "audioLayers": [] if kind == "eager" else [0]}
    audio = [] if kind == "eager" else [ramp([2, 2, 2, 6], 3, -1)]
    angles = (ramp([4, 3], 2, -1), ramp([4, 3], -2, 1))
    layer("DitBlock", [shape, *([dict(hasAudio=True)] if audio else [])], ramp([2, 4, 6], 3, -1), ramp([2, 6, 6], 2, -1), ramp([2, 2, 6], 2, -1), *angles, *audio, tol=TOLERANCE)
    heard = [ramp([2, 1, 3], 2, -1)] if audio else []
    layer("Dit", [shape], ramp([2, 1, 1, 4, 2], 3, -1), f([999.0, 0.0]), ramp([2, 2, 3], 2, -1), *heard, tol=1e-3)
