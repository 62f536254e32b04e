import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readText, whyOf } from './read-files';

// Which names of a script of Python are calls of PyTorch and Accelerate.

test('names of other modules, of the file itself, and of attributes are not PyTorch', () => {
  const reading = readText(
    'train.py',
    `from fairscale.nn import FullyShardedDataParallel as FSDP
from torch.distributed.fsdp import fully_shard


def init_device_mesh(size):
    return size


class DistributedDataParallel:
    pass


FSDP(model, reshard_after_forward=True)
init_device_mesh((2, 4))
self.fully_shard(model, mp_policy=1)
DistributedDataParallel(model)
fully_shard(model)
`,
  );
  assert.equal(reading.world, null);
  assert.deepEqual(reading.config, { parallel: { strategy: 'FULL_SHARD', wrap: 'root' } });
  assert.match(whyOf(reading, 'fairscale.nn.FullyShardedDataParallel'), /is not PyTorch's, and is not read/);
});

test('texts, comments, continued lines, tabs and brackets do not hide or make calls', () => {
  const reading = readText(
    'train.py',
    'from torch.distributed.fsdp import fully_shard, MixedPrecisionPolicy\nimport torch\n' +
      "text = r'''fully_shard(a, reshard_after_forward=False)\\' '''\n" +
      'other = f"{fully_shard(b)} # {1}" # fully_shard(c)\n' +
      'policy = \\\n\tMixedPrecisionPolicy(param_dtype = \\\n torch.bfloat16)\n' +
      "if True:\n\tfor layer in (a, [b, {'c': 1}]):\n\t\tfully_shard(layer, mp_policy=(policy))\n",
  );
  assert.deepEqual(reading.config, {
    parallel: { strategy: 'FULL_SHARD', wrap: 'blocks' },
    mixedPrecision: { paramDtype: 'bfloat16' },
  });
});

test('lines that are no Python, stray indents, cut lines and numbers such as 1. do not hide calls', () => {
  const reading = readText(
    'train.py',
    `!pip install torch
%%time
from torch.distributed.fsdp import fully_shard
    from torch.distributed.device_mesh import init_device_mesh
  mesh = init_device_mesh("cuda", (2, 4), mesh_dim_names=("replicate", "shard"))["replicate", "shard"]
...
with (torch.no_grad() as a, open(path) as self.file):
    yield
print "done", (
    for block in model.blocks:
        fully_shard(block, mesh=mesh, ...)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.)
optimizer = torch.optim.AdamW(p for n, p in model.named_parameters() if p.requires_grad)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=30, gamma=
`,
  );
  assert.equal(reading.world, 8);
  assert.deepEqual(reading.config, {
    parallel: { strategy: 'HYBRID_SHARD', wrap: 'blocks', mesh: { dpReplicate: 2, dpShard: 4 } },
    clipNorm: 1,
    optimizer: { kind: 'adamW' },
    schedule: { kind: 'step', stepSize: 30 },
  });
});

test('an attribute is no name, elif and else are other branches, and decorators call', () => {
  const reading = readText(
    'train.py',
    `from accelerate import Accelerator, DeepSpeedPlugin
plugin = DeepSpeedPlugin(zero_stage=3)
self.plugin = None
accelerator = Accelerator(deepspeed_plugin=plugin)
for name, module in model.named_modules():
    if isinstance(module, nn.Embedding):
        pass
    elif isinstance(module, nn.Linear):
        torch.distributed.fsdp.fully_shard(module)
else:
    torch.distributed.fsdp.fully_shard(model)
@torch.autocast("cuda", dtype=torch.bfloat16)
def forward(x): return x
`,
  );
  assert.equal(reading.config.parallel?.wrap, 'linear');
  assert.deepEqual(reading.config.mixedPrecision, { paramDtype: 'bfloat16', reduceDtype: 'float32' });
});
