import assert from 'node:assert/strict';
import { rmSync, truncateSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { temporaryFolder } from '../../session/job-fixture';
import { GPT, launchTorch } from '../../torch/torch-fixture';
import { loadWhileSaving } from './loads-while-saving';

test('a run on PyTorch loads whole checkpoints from a folder that another job replaces meanwhile', async (context) => {
  const jobs = [await launchTorch(context, { ranks: 2 }), await launchTorch(context, { ranks: 2 })] as const;
  await loadWhileSaving(context, jobs, 8);
});

test('a checkpoint that only some ranks can read changes no rank', async (context) => {
  const { path } = temporaryFolder(context);
  const job = await launchTorch(context, { ranks: 2 });
  const config = { model: GPT, parallel: { strategy: 'FULL_SHARD' } } as const;
  const [run, twin] = [await job.train(config), await job.train(config)];
  await run.step(1);
  await run.save(join(path, 'saved'));
  await run.step(1);
  const hide =
    "from shardlab_torch import checkpoint as c\nif rank == 1: own, c.STATE_FILE = c.STATE_FILE, 'none.json'";
  await job.on('all').python(hide);
  await assert.rejects(run.load(join(path, 'saved')), { code: 'IO', message: /do not see the same files/ });
  await job.on(1).python('c.STATE_FILE = own');
  await run.step(1);
  await twin.step(3);
  assert.deepEqual(run.losses, twin.losses);
  truncateSync(join(path, 'saved', 'model.safetensors'), 100);
  await assert.rejects(run.load(join(path, 'saved')), { code: 'IO', message: /model\.safetensors/ });
  rmSync(join(path, 'saved'), { recursive: true });
  await assert.rejects(run.load(join(path, 'saved')), { code: 'IO' });
  await run.step(1);
});
