"""A GPT with the parameter names of shardlab."""

import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

# Decided by an export.
IS_TIED, RECOMPUTES, RECOMPUTES_SOME, REENTRANT, NTH = True, False, False, False, 1

VOCAB, SEQ, LAYERS = 256, 64, 4
DIM, HEADS, FFN = 128, 4, 512
COLUMNS, ROWS = ("blocks.*.qkv", "blocks.*.fc1"), ("blocks.*.proj", "blocks.*.fc2")  # that tensor parallelism splits


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        self.qkv, self.proj = nn.Linear(DIM, 3 * DIM), nn.Linear(DIM, DIM)
        self.fc1, self.fc2 = nn.Linear(DIM, FFN), nn.Linear(FFN, DIM)

    def forward(self, x):
        heads = (*x.shape[:2], -1, DIM // HEADS)
        q, k, v = (part.view(heads).transpose(1, 2) for part in self.qkv(self.ln1(x)).chunk(3, dim=-1))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(mixed.transpose(1, 2).flatten(2))
        return x + self.fc2(F.gelu(self.fc1(self.ln2(x)), approximate="tanh"))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(VOCAB, DIM), nn.Embedding(SEQ, DIM)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.ln_f = nn.LayerNorm(DIM)
        if not IS_TIED:
            self.lm_head = nn.Linear(DIM, VOCAB, bias=False)

    def forward(self, ids, targets):
        x = self.wte(ids) + self.wpe.weight[: ids.shape[1]]
        if RECOMPUTES_SOME:
            for i, block in enumerate(self.blocks):
                x = checkpoint(block, x, use_reentrant=REENTRANT) if i % NTH == 0 else block(x)
        elif RECOMPUTES:
            for block in self.blocks:
                x = checkpoint(block, x, use_reentrant=REENTRANT)  # forward runs again in backward
        else:
            for block in self.blocks:
                x = block(x)
        if IS_TIED:
            logits = F.linear(self.ln_f(x), self.wte.weight)
        else:
            logits = self.lm_head(self.ln_f(x))
        return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


def blocks(model):
    return model.blocks


def read_outside(model):  # the parameters that are read outside of their modules
    if IS_TIED:
        return [model.wpe.weight, model.wte.weight]
    else:
        return [model.wpe.weight]
