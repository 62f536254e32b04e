import assert from 'node:assert/strict';
import { test } from 'node:test';
import { shardlab } from './run-command';

test('run trains a launch line at a small width, and says what became smaller', async () => {
  const command =
    'torchrun --nproc_per_node=2 run_clm.py --model_name_or_path meta-llama/Meta-Llama-3-8B --fsdp full_shard --bf16 --per_device_train_batch_size 1 --max_steps 500';
  const { status, stdout, stderr } = await shardlab([
    'run',
    '--json',
    '--steps',
    '1',
    '--',
    ...command.split(' '),
  ]);
  assert.equal(status, 0, stderr);
  const report = JSON.parse(stdout);
  assert.deepEqual([report.world, report.strategy], [2, 'FULL_SHARD']);
  assert.equal(report.losses.length, 1);
  assert.match(stderr, /llama3-8b is too large for this machine: a llama with 2 layers of width 64/);
  assert.match(stderr, /the run trains 1 of the 500 steps/);
  assert.match(stderr, /command line:1 +--fsdp +full_shard +used +parallel\.strategy: "FULL_SHARD"/);
});
