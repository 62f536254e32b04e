"""Trains a GPT by Accelerate. README.md says how to start it."""

import os

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from accelerate import Accelerator
from safetensors.torch import load_file

HERE = os.path.dirname(os.path.abspath(__file__))
VOCAB, SEQ, LAYERS = 2048, 64, 4
DIM, HEADS, FFN = 128, 4, 512
STEPS, ACCUMULATION = 20, 1
FIRST_STEP = 4  # steps that the weights have been trained for
CLIP_NORM = 1


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

    def forward(self, ids, targets):
        x = self.wte(ids) + self.wpe.weight[: ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.ln_f(x), self.wte.weight)
        return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


def read_batch(tokens, rank, index, device):  # the last batch is followed by the first
    ids = torch.from_numpy(tokens[rank, index % tokens.shape[1]].astype(np.int64)).to(device)
    return ids[:, :-1], ids[:, 1:]


def main():
    accelerator = Accelerator()
    rank, world, device = accelerator.process_index, accelerator.num_processes, accelerator.device
    tokens = np.load(os.path.join(HERE, "data", "tokens.npy"), mmap_mode="r")  # [rank, microbatch, row, position]
    if tokens.shape[0] != world:
        raise SystemExit(f"data/tokens.npy has batches for {tokens.shape[0]} data-parallel ranks, not {world}")
    model = GPT()
    model.load_state_dict(load_file(os.path.join(HERE, "model.safetensors")))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.001, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01)
    model, optimizer = accelerator.prepare(model, optimizer)
    for step in range(STEPS):
        total = torch.zeros((), device=device)
        inputs, targets = read_batch(tokens, rank, step, device)
        loss = model(inputs, targets)
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(model.parameters(), CLIP_NORM)
        optimizer.step()
        optimizer.zero_grad()
        total += loss.detach()
        total = accelerator.reduce(total, reduction="mean")
        accelerator.print(f"step {FIRST_STEP + step + 1} loss {total.item():.6f}", flush=True)
    accelerator.save_state(os.path.join(HERE, "checkpoint"))
    accelerator.end_training()


if __name__ == "__main__":
    main()
