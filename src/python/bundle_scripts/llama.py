"""A Llama with the parameter names of Hugging Face, which are those of shardlab."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

# Decided by an export.
IS_TIED, RECOMPUTES, RECOMPUTES_SOME, REENTRANT, NTH, QKV_BIAS = True, False, False, False, 1, False

VOCAB, LAYERS, DIM, FFN, HEADS, KV_HEADS, HEAD_DIM = 256, 4, 128, 512, 4, 4, 32
ROPE_THETA, NORM_EPS = 10000, 1e-05
COLUMNS = ("model.layers.*.self_attn.[qkv]_proj", "model.layers.*.mlp.[gu]*_proj")  # that tensor parallelism splits
ROWS = ("model.layers.*.self_attn.o_proj", "model.layers.*.mlp.down_proj")


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q_proj, self.o_proj = nn.Linear(DIM, DIM, bias=QKV_BIAS), nn.Linear(DIM, DIM, bias=False)
        self.k_proj, self.v_proj = (nn.Linear(DIM, KV_HEADS * HEAD_DIM, bias=QKV_BIAS) for _ in range(2))

    def forward(self, x, cos, sin):
        heads = (*x.shape[:2], -1, HEAD_DIM)
        q, k, v = (proj(x).view(heads).transpose(1, 2) for proj in (self.q_proj, self.k_proj, self.v_proj))
        q, k = (y * cos + torch.cat((-y[..., HEAD_DIM // 2 :], y[..., : HEAD_DIM // 2]), dim=-1) * sin for y in (q, k))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.o_proj(mixed.transpose(1, 2).flatten(2))


class SwiGLU(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate_proj, self.up_proj = nn.Linear(DIM, FFN, bias=False), nn.Linear(DIM, FFN, bias=False)
        self.down_proj = nn.Linear(FFN, DIM, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class LlamaBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.self_attn, self.mlp = Attention(), SwiGLU()
        self.input_layernorm, self.post_attention_layernorm = (nn.RMSNorm(DIM, eps=NORM_EPS) for _ in range(2))

    def forward(self, x, cos, sin):
        x = x + self.self_attn(self.input_layernorm(x), cos, sin)
        return x + self.mlp(self.post_attention_layernorm(x))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed_tokens = nn.Embedding(VOCAB, DIM)
        self.layers = nn.ModuleList(LlamaBlock() for _ in range(LAYERS))
        self.norm = nn.RMSNorm(DIM, eps=NORM_EPS)

    def forward(self, ids):
        x = self.embed_tokens(ids)
        frequencies = ROPE_THETA ** (-torch.arange(0, HEAD_DIM, 2, device=ids.device) / HEAD_DIM)
        angles = torch.outer(torch.arange(ids.shape[1], device=ids.device), frequencies).repeat(1, 2)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        if RECOMPUTES_SOME:
            for i, block in enumerate(self.layers):
                x = checkpoint(block, x, cos, sin, use_reentrant=REENTRANT) if i % NTH == 0 else block(x, cos, sin)
        elif RECOMPUTES:
            for block in self.layers:
                x = checkpoint(block, x, cos, sin, use_reentrant=REENTRANT)  # forward runs again in backward
        else:
            for block in self.layers:
                x = block(x, cos, sin)
        return self.norm(x)


class Llama(nn.Module):
    def __init__(self):
        super().__init__()
        self.model = Decoder()
        if not IS_TIED:
            self.lm_head = nn.Linear(DIM, VOCAB, bias=False)

    def forward(self, ids, targets):
        if IS_TIED:
            logits = F.linear(self.model(ids), self.model.embed_tokens.weight)
        else:
            logits = self.lm_head(self.model(ids))
        return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


def blocks(model):
    return model.model.layers


def read_outside(model):  # the parameters that are read outside of their modules
    return [model.model.embed_tokens.weight]
