"""Measures this machine's devices: matmuls, memory, element-wise work, launches, all-reduce.

Prints one JSON document. Needs only torch.
"""

import argparse
import json
import os
import socket
import statistics
import sys
import time

try:
    import torch
except ImportError as error:
    print(json.dumps({"missing": "torch", "why": str(error)}))
    sys.exit(0)

arguments = argparse.ArgumentParser()
arguments.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
DEVICE = arguments.parse_args().device
CUDA = DEVICE == "cuda"

# (m, n, k): the rows (tokens of a microbatch), columns and inner size of matmuls in decoders from 1B to 70B.
# Large squares reach the highest rate.
GEMMS = [(2048, 2048, 2048), (4096, 4096, 4096), (8192, 8192, 8192), (8192, 16384, 8192),
         (4096, 12288, 4096), (4096, 4096, 11008), (8192, 4096, 1024), (2048, 50304, 2048)]
CPU_GEMMS = [(256, 256, 256), (512, 512, 512), (512, 2048, 512)]
VECTOR_BYTES = 2**30 if CUDA else 2**26
REDUCE_BYTES = [2**20, 2**24, 2**26, 2**28] if CUDA else [2**16, 2**20]


def wait():
    if CUDA:
        torch.cuda.synchronize()


def median_seconds(work, repeats=7, least_seconds=0.02):
    """Returns the median seconds of one call of `work`; each timing repeats the call until it is long enough for the clock."""
    work()
    wait()
    started = time.perf_counter()
    work()
    wait()
    once = max(time.perf_counter() - started, 1e-7)
    inner = max(1, int(least_seconds / once))
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        for _ in range(inner):
            work()
        wait()
        times.append((time.perf_counter() - started) / inner)
    return statistics.median(times)


def products():
    dtype = torch.bfloat16 if CUDA and torch.cuda.is_bf16_supported() else torch.float16 if CUDA else torch.float32
    rows = []
    for m, n, k in GEMMS if CUDA else CPU_GEMMS:
        a = torch.randn(m, k, device=DEVICE, dtype=dtype)
        b = torch.randn(k, n, device=DEVICE, dtype=dtype)
        seconds = median_seconds(lambda: a @ b)
        rows.append({"m": m, "n": n, "k": k, "dtype": str(dtype), "tflops": 2 * m * n * k / seconds / 1e12})
        del a, b
    return rows


def memory_traffic():
    x = torch.zeros(VECTOR_BYTES // 4, device=DEVICE)
    y = torch.empty_like(x)
    z = torch.empty_like(x)
    return [
        {"op": "copy", "tb_s": 2 * VECTOR_BYTES / median_seconds(lambda: y.copy_(x)) / 1e12},
        {"op": "add", "tb_s": 3 * VECTOR_BYTES / median_seconds(lambda: torch.add(x, y, out=z)) / 1e12},
        {"op": "gelu", "tb_s": 2 * VECTOR_BYTES / median_seconds(lambda: torch.nn.functional.gelu(x)) / 1e12},
    ]


def launch_microseconds():
    """Returns the CPU time of one small operation."""
    x = torch.zeros(16, device=DEVICE)
    count = 2000
    for _ in range(100):
        x.add_(1)
    wait()
    started = time.perf_counter()
    for _ in range(count):
        x.add_(1)
    seconds = time.perf_counter() - started
    wait()
    return seconds / count * 1e6


def reduce_rank(rank, world, port, results):
    import torch.distributed as dist

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    if CUDA:
        torch.cuda.set_device(rank)
    dist.init_process_group("nccl" if CUDA else "gloo", rank=rank, world_size=world)
    rows = []
    for size in REDUCE_BYTES:
        x = torch.zeros(size // 4, device=DEVICE)
        for _ in range(3):
            dist.all_reduce(x)
        wait()
        dist.barrier()
        count = 10
        started = time.perf_counter()
        for _ in range(count):
            dist.all_reduce(x)
        wait()
        seconds = (time.perf_counter() - started) / count
        rows.append({"bytes": size, "seconds": seconds, "bus_gb_s": 2 * (world - 1) / world * size / seconds / 1e9})
    if rank == 0:
        results.put(rows)
    dist.barrier()
    dist.destroy_process_group()


def all_reduce(world):
    import torch.multiprocessing as mp

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    context = mp.get_context("spawn")
    results = context.SimpleQueue()
    mp.spawn(reduce_rank, args=(world, port, results), nprocs=world, join=True)
    return results.get()


def main():
    if CUDA and not torch.cuda.is_available():
        print(json.dumps({"missing": "cuda", "torch": torch.__version__}))
        return
    if CUDA:
        properties = torch.cuda.get_device_properties(0)
        name, memory, world = properties.name, properties.total_memory, torch.cuda.device_count()
    else:
        name, memory, world = "cpu", os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), 2
    found = {
        "device": DEVICE,
        "name": name,
        "torch": torch.__version__,
        "memory_bytes": memory,
        "gpus": world,
        "gemm": products(),
        "memory": memory_traffic(),
        "launch_us": launch_microseconds(),
        "all_reduce": all_reduce(world) if world > 1 else [],
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
