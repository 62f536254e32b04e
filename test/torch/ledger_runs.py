"""Trains a tiny model on two ranks, with a ledger, and returns what each rank recorded; for the ledger's tests."""

from __future__ import annotations

import gc
import json
import os
import socket
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

sys.path.insert(0, str(Path(__file__).parents[2] / 'src' / 'python'))

WORLD = 2
VOCAB, DIM, HIDDEN = 11, 6, 7
"""Odd sizes, so that shards are padded."""
EVEN = 8
"""Hidden size under tensor parallelism, which divides it equally."""
STEPS = 4
UNITS = ['', 'blocks.0', 'blocks.1']


class Block(nn.Module):
    def __init__(self, hidden: int = HIDDEN) -> None:
        super().__init__()
        self.fc1 = nn.Linear(DIM, hidden)
        self.fc2 = nn.Linear(hidden, DIM)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.fc2(torch.tanh(self.fc1(x)))


class Net(nn.Module):
    def __init__(self, hidden: int = HIDDEN) -> None:
        super().__init__()
        self.wte = nn.Embedding(VOCAB, DIM)
        self.blocks = nn.ModuleList(Block(hidden) for _ in range(2))
        self.head = nn.Linear(DIM, VOCAB)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.wte(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def wrap(model: nn.Module, kind: str) -> nn.Module:
    if kind == 'tp':
        mesh = init_device_mesh('cpu', (WORLD,))
        for block in model.blocks:
            parallelize_module(block, mesh, {'fc1': ColwiseParallel(), 'fc2': RowwiseParallel()})
        return model
    if kind in ('ddp', 'ddp-views', 'zero-1'):
        return nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=kind == 'ddp-views')
    if kind == 'fsdp1':
        policy = ModuleWrapPolicy({Block})
        return FullyShardedDataParallel(model, auto_wrap_policy=policy, use_orig_params=False, device_id=torch.device('cpu'))
    if kind == 'checkpoint':
        model.blocks = nn.ModuleList(checkpoint_wrapper(block) for block in model.blocks)
    options = {'reshard_after_forward': False} if kind == 'grad-op' else {}
    for block in model.blocks:
        fully_shard(block, **options)
    return fully_shard(model, **options)


def live_bytes() -> int:
    """Counts the bytes of all storages of the process, each once, without the ledger. DDP's buckets were shown by all-reduces."""
    found: dict[int, int] = {}
    for item in gc.get_objects():
        if not issubclass(type(item), torch.Tensor):
            continue
        tensor = item._local_tensor if hasattr(item, '_local_tensor') else item
        if tensor.layout == torch.strided and tensor.device.type == 'cpu':
            found[tensor.untyped_storage()._cdata] = tensor.untyped_storage().nbytes()
    return sum(found.values())


def train(rank: int, kind: str, port: int, folder: str) -> None:
    from shardlab_torch.ledger import Ledger

    warnings.simplefilter('ignore')
    os.environ.update(MASTER_ADDR='127.0.0.1', MASTER_PORT=str(port))
    torch.set_num_threads(1)
    dist.init_process_group('gloo', rank=rank, world_size=WORLD)
    torch.manual_seed(0)
    model = Block() if kind == 'pp' else wrap(Net(EVEN if kind == 'tp' else HIDDEN), kind)
    attached: Any = model
    if kind == 'pp':
        attached = PipelineStage(model, rank, WORLD, torch.device('cpu'))
        schedule = Schedule1F1B(attached, n_microbatches=2, loss_fn=nn.functional.mse_loss)
    if kind == 'zero-1':
        optimizer: Any = ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, lr=1e-3)
    else:
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    ledger = Ledger(rank, WORLD, torch.device('cpu'), lambda group: 'world')
    ledger.attach(attached, optimizer, kind, UNITS)

    def pipeline_step() -> float:
        with ledger.span('step'):
            optimizer.zero_grad(set_to_none=True)
            with ledger.span('data'):
                x = torch.randn(4, DIM)
            losses: list[torch.Tensor] = []
            if rank == 0:
                schedule.step(x)
            else:
                schedule.step(target=x, losses=losses)
            with ledger.span('optimizer'):
                optimizer.step()
        return 0.0

    def step() -> float:
        if kind == 'pp':
            return pipeline_step()
        with ledger.span('step'):
            optimizer.zero_grad(set_to_none=True)
            with ledger.span('data'):
                ids = torch.randint(0, VOCAB, (2, 5))
            with ledger.span('forward'):
                logits = model(ids[:, :-1])
                loss = nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
            with ledger.span('backward'):
                loss.backward()
            with ledger.span('optimizer'):
                with ledger.purpose('norm'):
                    # Under TP here, some parameters are DTensors and others are not, which torch does not clip together.
                    if kind != 'tp':
                        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
            with ledger.span('loss'):
                mean = loss.detach().clone()
                dist.all_reduce(mean)
        return mean.item() / WORLD

    results: list[dict[str, Any]] = []
    for number in range(1, STEPS + 1):
        start = time.monotonic()
        independent = None
        if number == 2:
            with ledger.track(), ledger.profile():
                loss = step()
            independent = live_bytes()
        elif number in (1, 3):
            with ledger.track():
                loss = step()
        elif number == STEPS:
            with ledger.profile():
                loss = step()
        else:
            loss = step()
        record = ledger.record(number, start, time.monotonic(), loss, 8)
        results.append({'loss': loss, 'record': record, 'independent': independent})
    left = leftovers(model)
    Path(folder, f'{rank}.json').write_text(json.dumps({'steps': results, 'left': left}), encoding='utf-8')
    dist.destroy_process_group()
    # At the interpreter's end, a thread of torch that still runs would abort the process. Ranks of the library end in this way too.
    os._exit(0)


def leftovers(model: nn.Module) -> list[str]:
    """Returns what recorded steps left in place; it must be nothing, because other steps would pay for it."""
    from torch.distributed.fsdp._fully_shard._fsdp_param_group import FSDPParamGroup

    left = [
        f'{name}: hook {hook.__qualname__}'
        for name, module in model.named_modules()
        for hook in (*module._forward_hooks.values(), *module._forward_pre_hooks.values())
        if 'shardlab_torch' in str(getattr(hook, '__module__', ''))
    ]
    if 'resize_' in vars(torch.UntypedStorage):
        left.append('UntypedStorage.resize_')
    for kind, name in ((FSDPParamGroup, 'unshard'), (torch._C._distributed_c10d.Work, 'wait')):
        if 'shardlab_torch' in str(getattr(getattr(kind, name), '__module__', '')):
            left.append(name)
    if torch.utils._python_dispatch._get_current_dispatch_mode() is not None:
        left.append('dispatch mode')
    return left


def run(kind: str) -> list[dict[str, Any]]:
    """Returns each rank's results of a training under one strategy."""
    with socket.socket() as probe, tempfile.TemporaryDirectory() as folder:
        probe.bind(('127.0.0.1', 0))
        port = probe.getsockname()[1]
        probe.close()
        mp.spawn(train, (kind, port, folder), nprocs=WORLD)
        return [json.loads(Path(folder, f'{rank}.json').read_text(encoding='utf-8')) for rank in range(WORLD)]
