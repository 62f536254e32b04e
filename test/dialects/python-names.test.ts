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
