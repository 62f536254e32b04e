"""Measures a training step of Wan2.2-A14B's size on real GPUs: its time, its memory by part, and its share of communication.

    torchrun --standalone --nproc-per-node 8 scripts/python/wan_step.py --ulysses 8 --batch 32 --accumulation 8

The two experts have the model's blocks (self-attention, cross-attention, feed-forward, modulation by time). Weights and latents
are random; there is no autoencoder and no text encoder. FSDP is set up as in the Wan document: FULL_SHARD per block, bf16
parameters, fp32 reduction, fused AdamW. --experts-strategy SHARD_GRAD_OP keeps an expert whole from forward to backward. If a
batch does not fit, the script tries half of it, and the output says so. Rank 0 prints one JSON line. The script needs torch 2.4
or newer.
"""

import argparse
import functools
import json
import time

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.distributed._composable import checkpoint as checkpoint_block
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.distributed.fsdp import MixedPrecision, ShardingStrategy
from torch.distributed.fsdp.wrap import ModuleWrapPolicy

PATCH = 64  # number of values per patch: 16 channels of 1 x 2 x 2 positions


class AllToAll(torch.autograd.Function):
    """Splits dim `split` over the ranks and joins the received parts along dim `join`; backward does the reverse."""

    @staticmethod
    def forward(ctx, x, group, split, join):
        ctx.how = (group, split, join)
        parts = [part.contiguous() for part in x.chunk(group.size(), split)]
        received = [torch.empty_like(part) for part in parts]
        dist.all_to_all(received, parts, group=group)
        return torch.cat(received, join)

    @staticmethod
    def backward(ctx, gradient):
        group, split, join = ctx.how
        return AllToAll.apply(gradient, group, join, split), None, None, None


class Attention(nn.Module):
    def __init__(self, dim, heads, group=None):
        super().__init__()
        self.heads, self.group = heads, group
        self.q, self.k, self.v, self.o = (nn.Linear(dim, dim) for _ in range(4))
        self.norm_q, self.norm_k = nn.RMSNorm(dim), nn.RMSNorm(dim)

    def forward(self, x, context=None):
        of = x if context is None else context
        q, k, v = self.norm_q(self.q(x)), self.norm_k(self.k(of)), self.v(of)
        q, k, v = (t.unflatten(-1, (self.heads, -1)) for t in (q, k, v))  # batch, tokens, heads, dim of a head
        if self.group is not None:
            q, k, v = (AllToAll.apply(t, self.group, 2, 1) for t in (q, k, v))
        y = F.scaled_dot_product_attention(*(t.transpose(1, 2) for t in (q, k, v))).transpose(1, 2)
        if self.group is not None:
            y = AllToAll.apply(y, self.group, 1, 2)
        return self.o(y.flatten(2))


class Block(nn.Module):
    def __init__(self, dim, ffn, heads, group):
        super().__init__()
        self.norm1, self.norm2 = (nn.LayerNorm(dim, elementwise_affine=False) for _ in range(2))
        self.norm3 = nn.LayerNorm(dim)
        self.self_attention, self.cross_attention = Attention(dim, heads, group), Attention(dim, heads)
        self.feed_forward = nn.Sequential(nn.Linear(dim, ffn), nn.GELU("tanh"), nn.Linear(ffn, dim))
        self.modulation = nn.Parameter(torch.randn(6, dim) / dim**0.5)

    def forward(self, x, time_embedding, text):
        a, b, c, d, e, f = (self.modulation + time_embedding).unsqueeze(2).unbind(1)
        x = x + self.self_attention(self.norm1(x) * (1 + b) + a) * c
        x = x + self.cross_attention(self.norm3(x), text)
        return x + self.feed_forward(self.norm2(x) * (1 + e) + d) * f


class Expert(nn.Module):
    def __init__(self, args, group):
        super().__init__()
        dim = args.dim
        self.patches, self.head = nn.Linear(PATCH, dim), nn.Linear(dim, PATCH)
        self.text = nn.Sequential(nn.Linear(4096, dim), nn.GELU("tanh"), nn.Linear(dim, dim))
        self.time = nn.Sequential(nn.Linear(256, dim), nn.SiLU(), nn.Linear(dim, 6 * dim))
        self.blocks = nn.ModuleList(Block(dim, args.ffn, args.heads, group) for _ in range(args.layers))

    def forward(self, latents, times, text):
        x, text, times = self.patches(latents), self.text(text), self.time(times).unflatten(-1, (6, -1))
        for block in self.blocks:
            x = block(x, times, text)
        return self.head(x)


class TwoExperts(nn.Module):
    """Runs the first expert for high noise and the second for low noise; in a step, all ranks run the same expert."""

    def __init__(self, experts):
        super().__init__()
        self.experts = nn.ModuleList(experts)

    def forward(self, which, *inputs):
        return self.experts[which](*inputs)


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name, value in dict(
        layers=40, dim=5120, ffn=13824, heads=40, frames=81, width=832, height=480, text=512, ulysses=1, batch=32, accumulation=8,
        checkpoint_every=4, steps=3,
    ).items():
        parser.add_argument("--" + name.replace("_", "-"), type=int, default=value)
    parser.add_argument("--experts-strategy", default="FULL_SHARD", choices=["FULL_SHARD", "SHARD_GRAD_OP"])
    parser.add_argument("--no-prefetch", action="store_true")
    parser.add_argument("--profile", action="store_true", help="adds the shares of time with NCCL kernels and with only NCCL kernels")
    return parser.parse_args()


def build(args, device, mesh):
    torch.manual_seed(0)
    group = mesh["ulysses"].get_group() if args.ulysses > 1 else None
    half = MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.float32, buffer_dtype=torch.bfloat16)
    wrap = functools.partial(
        FSDP, mixed_precision=half, device_id=device, use_orig_params=True,
        forward_prefetch=not args.no_prefetch, backward_prefetch=None if args.no_prefetch else torch.distributed.fsdp.BackwardPrefetch.BACKWARD_PRE,
    )
    # Experts are made one after the other, because each is whole on the device (57 GB) until it is sharded.
    experts = []
    for _ in range(2):
        with device:
            expert = Expert(args, group)
        for i, block in enumerate(expert.blocks):
            if args.checkpoint_every and i % args.checkpoint_every == 0:
                checkpoint_block(block)
        strategy = ShardingStrategy[args.experts_strategy]
        experts.append(wrap(expert, auto_wrap_policy=ModuleWrapPolicy({Block}), sharding_strategy=strategy))
    model = wrap(TwoExperts(experts), sharding_strategy=ShardingStrategy.FULL_SHARD)
    fused = device.type == "cuda"
    optimizer = torch.optim.AdamW(model.parameters(), lr=2.5e-5, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01, fused=fused)
    return model, optimizer


def step(model, optimizer, args, device, batch, number):
    tokens = (1 + (args.frames - 1) // 4) * (args.height // 16) * (args.width // 16) // args.ulysses
    kind = dict(device=device, dtype=torch.bfloat16)
    for _ in range(args.accumulation):
        latents, noise = torch.randn(2, batch, tokens, PATCH, **kind)
        inputs = latents, torch.randn(batch, 256, **kind), torch.randn(batch, args.text, 4096, **kind)
        F.mse_loss(model(number % 2, *inputs), noise).div(args.accumulation).backward()
    model.clip_grad_norm_(1.0)
    optimizer.step()
    optimizer.zero_grad()


def measure(args, device, mesh, batch):
    cuda = device.type == "cuda"
    model, optimizer = build(args, device, mesh)
    seconds, peaks = [], []
    for number in range(2 + args.steps):
        if cuda:
            torch.cuda.reset_peak_memory_stats()
            torch.cuda.synchronize()
        dist.barrier()
        start = time.perf_counter()
        step(model, optimizer, args, device, batch, number)
        if cuda:
            torch.cuda.synchronize()
            peaks.append(torch.cuda.max_memory_allocated())
        seconds.append(time.perf_counter() - start)
    params = sum(p.numel() * p.element_size() for p in model.parameters())
    states = [s for state in optimizer.state.values() for s in state.values() if torch.is_tensor(s)]
    optimizer_bytes = sum(s.numel() * s.element_size() for s in states)
    data_parallel = dist.get_world_size() // args.ulysses
    median = sorted(seconds[2:])[args.steps // 2]
    answer = {
        "batch": batch, "tokens": (1 + (args.frames - 1) // 4) * (args.height // 16) * (args.width // 16),
        "step_s": median, "samples_per_s": batch * args.accumulation * data_parallel / median,
        "params_gb": params / 1e9, "optimizer_gb": optimizer_bytes / 1e9,
    }
    if cuda:
        peak = max(peaks)
        # Gradient shards are as large as parameter shards.
        answer |= {"peak_gb": peak / 1e9, "activations_and_temporary_gb": (peak - 2 * params - optimizer_bytes) / 1e9}
    if args.profile:
        answer |= profile(lambda: step(model, optimizer, args, device, batch, 0), cuda)
    return answer


def profile(work, cuda):
    """Returns the share of the step's time in which an NCCL kernel ran, and the share in which only NCCL kernels ran."""
    if not cuda:
        return {}
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
        work()
        torch.cuda.synchronize()
    kernels = [e for e in profiler.events() if e.device_type == torch.autograd.DeviceType.CUDA]
    spans = [(e.time_range.start, e.time_range.end, "nccl" in e.name.lower()) for e in kernels]
    whole = max(end for _, end, _ in spans) - min(start for start, _, _ in spans)
    comm, compute = (covered([s for s in spans if s[2] == is_comm]) for is_comm in (True, False))
    both = comm + compute - covered(spans)
    return {"comm_share": comm / whole, "exposed_comm_share": (comm - both) / whole}


def covered(spans):
    total, until = 0.0, float("-inf")
    for start, end, _ in sorted(spans):
        total += max(0.0, end - max(start, until))
        until = max(until, end)
    return total


def main():
    args = parse()
    cuda = torch.cuda.is_available()
    dist.init_process_group("nccl" if cuda else "gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    device = torch.device("cuda", rank % torch.cuda.device_count()) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
    mesh = init_device_mesh(device.type, (world // args.ulysses, args.ulysses), mesh_dim_names=("data", "ulysses"))
    batch, answer = args.batch, None
    while batch >= 1 and answer is None:
        try:
            answer = measure(args, device, mesh, batch)
        except torch.cuda.OutOfMemoryError:
            torch.cuda.empty_cache()
            batch //= 2
    if rank == 0:
        print(json.dumps({"asked_batch": args.batch, "world": world, **(answer or {"error": "no batch fits"})}))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
