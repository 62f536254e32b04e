import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { memoryAtPeak } from '../../src/ledger/memory';
import { launch } from '../../src/session/run/launch';
import { DIT, largestDifference, launchTorch, T5 } from './torch-fixture';

const BOUND = 1e-4;
const BASE = {
  ...{ model: DIT, data: 'moving-shapes', movingShapes: { validation: 3 }, batch: 2, seed: 5 },
  optimizer: { lr: 3e-3 },
} as const;

test('videos are evaluated as here, and runs of both engines continue from the checkpoints of each other', async (context) => {
  const folder = mkdtempSync(join(tmpdir(), 'shardlab-dit-'));
  context.after(() => rmSync(folder, { recursive: true, force: true }));
  const here = await launch({ ranks: 2 });
  context.after(() => here.shutdown());
  const there = await launchTorch(context, { ranks: 2 });
  const config = { ...BASE, parallel: { strategy: 'FULL_SHARD' } } as const;
  const runs = [await here.train(config), await there.train(config)] as const;
  // Each expert has been left out in other steps, so their optimizer states have counted other steps.
  for (const run of runs) await run.step(3);
  const [ours, theirs] = [await runs[0].evaluate(), await runs[1].evaluate()];
  assert.ok(Math.abs(ours.loss - theirs.loss) <= BOUND, `${ours.loss}, ${theirs.loss}`);
  assert.deepEqual([theirs.rows, theirs.perplexity], [ours.rows, null]);
  for (const [i, run] of runs.entries()) await run.save(join(folder, `of-${i}`));
  for (const run of runs) await run.step(4);
  for (const [i, run] of runs.entries()) {
    const continued = await (i === 0 ? there : here).train({ ...BASE, parallel: { strategy: 'ZERO_1' } });
    await continued.load(join(folder, `of-${i}`));
    await continued.step(4);
    const difference = largestDifference(continued.losses.slice(-4), run.losses.slice(-4));
    assert.ok(difference <= BOUND, `${continued.losses}; ${run.losses}`);
  }
  await assert.rejects(runs[1].sample([1, 2], { tokens: 2 }), /kind 'dit' gives no logits of tokens/);
  await assert.rejects(runs[1].sampleVideo('a red circle', { steps: 1 }), /sampleVideo is not done here/);
  await runs[1].reshard({ strategy: 'NO_SHARD' });
  await runs[1].step(2);
  await runs[0].step(2);
  assert.ok(
    largestDifference(runs[0].losses, runs[1].losses) <= BOUND,
    `${runs[0].losses}; ${runs[1].losses}`,
  );
});

test('only the expert that runs is gathered, and the ledger names its units', async (context) => {
  const job = await launchTorch(context, { ranks: 2 });
  const run = await job.train({ ...BASE, parallel: { strategy: 'FULL_SHARD' } });
  await run.step(2);
  const [record] = run.records.newest();
  assert.ok(record !== undefined);
  const gathered = record.collectives.filter(({ op }) => op === 'allGather').map(({ module }) => module);
  // The second step has timesteps below the boundary.
  assert.ok(
    gathered.every((module) => module.startsWith('low_noise_model')) && gathered.length > 0,
    `${gathered}`,
  );
  const held = memoryAtPeak(record);
  for (const cause of ['batch', 'param.shard', 'optimizer'] as const) assert.ok(held[cause] > 0, cause);
  const units = (await run.units()).rows.map(({ module }) => module);
  assert.ok(units.includes('high_noise_model.blocks.1') && units.includes('low_noise_model'), `${units}`);
});

test('a text encoder is gathered unit by unit, and stays the same after failed work and in other strategies', async (context) => {
  const here = await launch({ ranks: 2 });
  context.after(() => here.shutdown());
  const there = await launchTorch(context, { ranks: 2 });
  const config = { ...BASE, textEncoder: { model: T5 }, parallel: { cp: 2 } } as const;
  const runs = [await here.train(config), await there.train(config)] as const;
  for (const run of runs) await run.step(2);
  const gathered = runs.map((run) => {
    const collectives = run.records.newest()[0]?.collectives ?? [];
    return collectives.flatMap(({ op, module, cause, wireBytes }) =>
      op === 'allGather' && module.startsWith('text_encoder') ? [`${module} ${cause} ${wireBytes}`] : [],
    );
  });
  assert.deepEqual(gathered[1], gathered[0]);
  assert.equal(gathered[1]?.length, 3);
  await assert.rejects(there.on(0).python('1 / 0'), /ZeroDivisionError/);
  for (const run of runs) await run.step(2);
  for (const run of runs) await run.reshard({ strategy: 'ZERO_1', cp: 1 });
  for (const run of runs) await run.step(2);
  assert.ok(
    largestDifference(runs[0].losses, runs[1].losses) <= 1e-5,
    `${runs[1].losses}; ${runs[0].losses}`,
  );
});
