import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readConfig } from '../../src/programs/read';
import { effects, folderOf, readText, whyOf } from './read-files';

// Scripts of Python, as people write them: the calls of PyTorch and Accelerate are read, and nothing is run.

const FSDP1 = `import functools

import torch
import torch.nn as nn
from torch.distributed.fsdp import (
    BackwardPrefetch,
    CPUOffload,
    FullyShardedDataParallel as FSDP,
    MixedPrecision,
    ShardingStrategy,
)
from torch.distributed.fsdp.wrap import size_based_auto_wrap_policy, transformer_auto_wrap_policy

from model import Block, GPT

half = MixedPrecision(param_dtype=torch.float16)
bf16 = MixedPrecision(
    param_dtype=torch.bfloat16,
    # Gradients are added up in float32.
    reduce_dtype=torch.float32,
)


def main(args):
    """Not a call: FSDP(model, sharding_strategy="NO_SHARD")."""
    policy = functools.partial(
        transformer_auto_wrap_policy,
        transformer_layer_cls={Block},
    )
    model = GPT(args)
    model = FSDP(
        model,
        auto_wrap_policy=policy,
        sharding_strategy=ShardingStrategy.SHARD_GRAD_OP,
        cpu_offload=CPUOffload(offload_params=True),
        mixed_precision=bf16,
        backward_prefetch=BackwardPrefetch.BACKWARD_PRE,
        device_id=torch.cuda.current_device(),
        limit_all_gathers=args.limit_all_gathers,
        use_orig_params=True,
    )
`;

test('FSDP 1: the strategy, the policies behind names, and a value that the script computes', () => {
  const reading = readText('train.py', FSDP1);
  assert.deepEqual(reading.config, {
    parallel: { strategy: 'SHARD_GRAD_OP', wrap: 'blocks', forwardPrefetch: false },
    mixedPrecision: { paramDtype: 'bfloat16', reduceDtype: 'float32' },
    offload: { parameters: true },
  });
  const found = effects(reading);
  assert.equal(found['FSDP.limit_all_gathers'], 'warning');
  assert.match(
    whyOf(reading, 'FSDP.limit_all_gathers'),
    /not known here: line 39 computes it; write parallel\.limitAllGathers/,
  );
  assert.equal(found['FSDP.device_id'], 'none', 'a value that nothing here reads need not be known');
  assert.equal(found['FSDP.use_orig_params'], 'none');
  const lineOf = (key: string): unknown => reading.lines.find((line) => line.key === key)?.line;
  assert.deepEqual(
    [lineOf('FSDP'), lineOf('FSDP.sharding_strategy'), lineOf('MixedPrecision.reduce_dtype')],
    [31, 34, 20],
  );
  const policies = reading.lines.filter(({ key }) => key === 'MixedPrecision');
  assert.deepEqual(
    policies.map(({ line, why }) => [line, why]),
    [
      [16, 'is not the argument of a call that is read'],
      [17, 'types of values'],
    ],
  );
});

test('an unknown keyword is an error with the nearest name, and so is an unknown value', () => {
  const wrong = readText('train.py', FSDP1.replace('limit_all_gathers=args', 'forward_prefetc=args'));
  assert.equal(effects(wrong)['FSDP.forward_prefetc'], 'error');
  assert.match(
    whyOf(wrong, 'FSDP.forward_prefetc'),
    /FullyShardedDataParallel has no such key; did you mean "forward_prefetch"/,
  );
  const strategy = readText(
    'train.py',
    FSDP1.replace('ShardingStrategy.SHARD_GRAD_OP', 'ShardingStrategy.SHARD_GRADS'),
  );
  assert.match(whyOf(strategy, 'FSDP.sharding_strategy'), /expected NO_SHARD, ZERO_1.*SHARD_GRADS/);
  const precision = readText('train.py', FSDP1.replace('mixed_precision=bf16', 'mixed_precision=True'));
  assert.match(
    whyOf(precision, 'FSDP.mixed_precision'),
    /expected MixedPrecision\(param_dtype=…\), got true/,
  );
  const elsewhere = readText('train.py', FSDP1.replace('use_orig_params', 'mp_policy'));
  assert.equal(effects(elsewhere)['FSDP.mp_policy'], 'error');
});

test('policies of units: by size, by class, none, and one that is not known', () => {
  const wrapOf = (policy: string) =>
    readText('train.py', FSDP1.replace('auto_wrap_policy=policy', `auto_wrap_policy=${policy}`)).config
      .parallel?.wrap;
  assert.deepEqual(wrapOf('functools.partial(size_based_auto_wrap_policy, min_num_params=int(1e5))'), {
    minNumParams: 100_000,
  });
  assert.equal(
    wrapOf('functools.partial(transformer_auto_wrap_policy, transformer_layer_cls={nn.Linear})'),
    'linear',
  );
  assert.equal(wrapOf('None'), 'root');
  assert.equal(wrapOf('my_policy'), undefined);
  const without = readText('train.py', FSDP1.replace('        auto_wrap_policy=policy,\n', ''));
  assert.equal(without.config.parallel?.wrap, 'root');
});

const FSDP2 = `import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard

TP = 2


def shard(model):
    mesh = init_device_mesh("cuda", (2, 4, TP), mesh_dim_names=("dp_replicate", "dp_shard", "tp"))
    policy = MixedPrecisionPolicy(torch.bfloat16, reduce_dtype=torch.float32)
    kwargs = {"mesh": mesh["dp_replicate", "dp_shard"], "mp_policy": policy}
    for block in model.blocks:
        fully_shard(block, **kwargs, reshard_after_forward=True)
    fully_shard(model, **kwargs, reshard_after_forward=False)
    return model
`;

test('FSDP 2: a mesh with tensor parallelism, a dict of keywords, and blocks that decide before the root', () => {
  const reading = readText('train.py', FSDP2);
  assert.equal(reading.world, 16);
  assert.deepEqual(reading.config, {
    parallel: { strategy: 'HYBRID_SHARD', wrap: 'blocks', tp: 2, mesh: { dpReplicate: 2, dpShard: 4 } },
    mixedPrecision: { paramDtype: 'bfloat16', reduceDtype: 'float32' },
  });
  const root = reading.lines.filter(({ key, line }) => key.startsWith('fully_shard') && line === 14);
  assert.deepEqual(
    root.map(({ key, effect }) => [key, effect]),
    [
      ['fully_shard', 'used'],
      ['fully_shard.reshard_after_forward', 'none'],
    ],
  );
  const strategyOf = (text: string) => readText('train.py', text).config.parallel?.strategy;
  assert.equal(
    strategyOf(FSDP2.replace('reshard_after_forward=True', 'reshard_after_forward=False')),
    '_HYBRID_SHARD_ZERO2',
  );
  assert.equal(
    strategyOf(FSDP2.replace('mesh["dp_replicate", "dp_shard"]', 'mesh["dp_shard"]')),
    'FULL_SHARD',
  );
  const linear = FSDP2.replace(
    'in model.blocks',
    'in [m for m in model.modules() if isinstance(m, torch.nn.Linear)]',
  );
  assert.equal(readText('train.py', linear).config.parallel?.wrap, 'linear');
  const alone = FSDP2.replace(/ {4}for block[\s\S]*?True\)\n/, '');
  assert.equal(readText('train.py', alone).config.parallel?.wrap, 'root');
  const number = readText('train.py', FSDP2.replace('reshard_after_forward=True', 'reshard_after_forward=4'));
  assert.equal(number.config.parallel?.reshardAfterForward, 4);
});

test('a keyword of the root that differs from that of blocks is a warning', () => {
  const text = FSDP2.replace(
    'fully_shard(model, **kwargs,',
    'fully_shard(model, mp_policy=MixedPrecisionPolicy(output_dtype=torch.float32),',
  );
  const reading = readText('train.py', text);
  const root = reading.lines.find(({ key, line }) => key === 'fully_shard.mp_policy' && line === 14);
  assert.equal(root?.effect, 'warning');
  assert.match(root?.why ?? '', /for this module only; the call for blocks on line 13 decides/);
});

test('FSDP 1 in a loop: the blocks decide, and the root has no strategy of its own', () => {
  const reading = readText(
    'train.py',
    `from torch.distributed.fsdp import FullyShardedDataParallel as FSDP, ShardingStrategy

for i, layer in enumerate(model.layers):
    model.layers[i] = FSDP(layer, sharding_strategy=ShardingStrategy.SHARD_GRAD_OP)
model.head = FSDP(model.head, forward_prefetch=True)
model = FSDP(model)
`,
  );
  assert.deepEqual(reading.config.parallel, {
    strategy: 'SHARD_GRAD_OP',
    wrap: 'blocks',
    forwardPrefetch: false,
  });
  assert.equal(effects(reading)['FSDP.forward_prefetch'], 'warning');
});

test('keywords that a script adds one by one are not known, but a single policy is', () => {
  const reading = readText(
    'train.py',
    `import torch
from torch.distributed.fsdp import CPUOffloadPolicy, fully_shard, MixedPrecisionPolicy

kwargs = {}
if args.mixed_precision:
    kwargs["mp_policy"] = MixedPrecisionPolicy(param_dtype=torch.bfloat16)
kwargs["offload_policy"] = CPUOffloadPolicy()
[fully_shard(layer, **kwargs) for layer in model.layers]
fully_shard(model, **kwargs)
`,
  );
  assert.equal(effects(reading)['fully_shard.**'], 'warning');
  assert.deepEqual(reading.config, {
    parallel: { strategy: 'FULL_SHARD', wrap: 'blocks' },
    mixedPrecision: { paramDtype: 'bfloat16' },
    offload: { parameters: true },
  });
});

test('DDP: its bucket, the optimizer that it shards, and the first one of two branches', () => {
  const text = `import torch
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel as DDP

if not args.fsdp:
    model = DDP(model, device_ids=[rank], bucket_cap_mb=50, find_unused_parameters=False)
else:
    model = torch.distributed.fsdp.FullyShardedDataParallel(model, device_id=rank)
`;
  const reading = readText('train.py', text);
  assert.deepEqual(reading.config, { parallel: { strategy: 'NO_SHARD', bucketBytes: 50 * 2 ** 20 } });
  assert.equal(effects(reading)['torch.distributed.fsdp.FullyShardedDataParallel'], 'warning');
  assert.match(
    whyOf(reading, 'torch.distributed.fsdp.FullyShardedDataParallel'),
    /DDP on line 6 comes first; conditions are not evaluated/,
  );
  const zero = readText(
    'train.py',
    `${text}opt = ZeroRedundancyOptimizer(model.parameters(), optimizer_class=torch.optim.AdamW, lr=2.5e-4, betas=(0.9, 0.95))\n`,
  );
  assert.equal(zero.config.parallel?.strategy, 'ZERO_1');
  assert.deepEqual(zero.config.optimizer, { lr: 2.5e-4, betas: [0.9, 0.95] });
});

test('a launch script that names the Python file reads its calls too; its arguments are read as before', () => {
  const cwd = folderOf({
    'train.py': FSDP2,
    'plain.py': 'print("hello")\n',
    'src/run/train.py':
      'from torch.nn.parallel import DistributedDataParallel\nDistributedDataParallel(model)\n',
    'launch.sh':
      '#!/bin/bash\ntorchrun --nnodes 2 --nproc_per_node=8 train.py --per_device_train_batch_size 2\n',
    'module.sh': '#!/bin/bash\ntorchrun --nproc_per_node=8 -m src.run.train\n',
    'plain.sh': '#!/bin/bash\ntorchrun --nproc_per_node=8 plain.py\n',
    'wrong.sh': '#!/bin/bash\ntorchrun --nproc_per_node=4 train.py\n',
  });
  const reading = readConfig('launch.sh', { cwd });
  assert.deepEqual([reading.world, reading.machines, reading.config.batch], [16, 2, 2]);
  assert.equal(reading.config.parallel?.strategy, 'HYBRID_SHARD');
  assert.equal(effects(reading)['train.py'], 'used');
  assert.equal(readConfig('module.sh', { cwd }).config.parallel?.strategy, 'NO_SHARD');
  assert.equal(whyOf(readConfig('plain.sh', { cwd }), 'plain.py'), 'makes no call that is read here');
  const wrong = readConfig('wrong.sh', { cwd });
  assert.match(whyOf(wrong, 'init_device_mesh.mesh_shape'), /16 processes are not 1 machines x 4 processes/);
  assert.throws(
    () => readConfig('plain.py', { cwd }),
    /plain\.py makes no call that is read: FullyShardedDataParallel/,
  );
});
