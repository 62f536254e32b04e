"""Times the collectives of `shardlab bench collectives` in torch.distributed with gloo.

Usage: collectives_peer.py WORLD [SIZE ...]   (sizes in bytes)
Prints one JSON list of {op, bytes, seconds} on stdout. Rank 0 measures; each time is the median of five samples.
"""

import json
import os
import sys
import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

REPEATS = {4096: 100, 65536: 50, 1 << 20: 20, 16 << 20: 4}
SAMPLES = 5


def median_time(run, repeats):
    run()
    samples = []
    for _ in range(SAMPLES):
        dist.barrier()
        start = time.perf_counter()
        for _ in range(repeats):
            run()
        samples.append((time.perf_counter() - start) / repeats)
    return sorted(samples)[SAMPLES // 2]


def bench_size(world, size):
    length = size // 4
    part = length // world
    whole, other, share = torch.zeros(length), torch.zeros(length), torch.zeros(part)
    used = part * world
    runs = {
        "allReduce": lambda: dist.all_reduce(whole),
        "reduceScatter": lambda: dist.reduce_scatter_tensor(share, whole[:used]),
        "allGather": lambda: dist.all_gather_into_tensor(other[:used], share),
        "allToAll": lambda: dist.all_to_all_single(other[:used], whole[:used]),
    }
    repeats = REPEATS.get(size, 2)
    return [{"op": op, "bytes": size, "seconds": median_time(run, repeats)} for op, run in runs.items()]


def rank_main(rank, world, sizes, store, output):
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // world))
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world)
    rows = [row for size in sizes for row in bench_size(world, size)]
    if rank == 0:
        with open(output, "w", encoding="utf-8") as file:
            json.dump(rows, file)
    dist.destroy_process_group()


def main():
    world = int(sys.argv[1])
    sizes = [int(text) for text in sys.argv[2:]] or [4096, 65536, 1 << 20, 16 << 20, 64 << 20]
    with tempfile.TemporaryDirectory() as folder:
        store, output = os.path.join(folder, "store"), os.path.join(folder, "rows.json")
        mp.spawn(rank_main, args=(world, sizes, store, output), nprocs=world)
        with open(output, encoding="utf-8") as file:
            print(file.read())


if __name__ == "__main__":
    main()
