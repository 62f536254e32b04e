import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { launchFor, temporaryFolder } from '../job-fixture';
import { assertClose, checkWorlds, configOf } from './own-model-cases';
import { OWN } from './own-models';

for (const name of Object.keys(OWN)) {
  test(`${name} trains under every strategy as in one process`, async (context) => {
    await checkWorlds(context, name, { 2: 'all', 4: ['FULL_SHARD', 'HYBRID_SHARD'] });
  });

  test(`${name} continues after a save, a load and a reshard`, async (context) => {
    const folder = temporaryFolder(context);
    const job = await launchFor(context, { ranks: 4 });
    const whole = await job.train(configOf(name, 'NO_SHARD', 1) as object, { ranks: 1 });
    await whole.step(9);
    const run = await job.train(configOf(name, 'FULL_SHARD', 4) as object);
    await run.step(3);
    const path = join(folder.path, 'checkpoint');
    await run.save(path);
    await run.reshard({ strategy: 'ZERO_2', world: 2 });
    await run.step(3);
    assertClose(run.losses, whole.losses.slice(0, 6), 'after a reshard');
    const again = await job.train(configOf(name, 'SHARD_GRAD_OP', 2) as object, { ranks: 2 }).load(path);
    await again.step(6);
    assertClose(again.losses, whole.losses.slice(3), 'after a load');
  });
}

test('a model of its own learns, and its ledger is that of the built-in model', async (context) => {
  const job = await launchFor(context, { ranks: 2 });
  const learning = await job.train(configOf('an MLP for a regression', 'FULL_SHARD', 2) as object);
  await learning.step(200);
  const mean = (losses: readonly number[]): number => losses.reduce((a, b) => a + b) / losses.length;
  assert.ok(mean(learning.losses.slice(-20)) < 0.1 * mean(learning.losses.slice(0, 20)));
  const peaks = [...learning.records].map(({ memory }) => memory.peakBytes);
  assert.equal(peaks.at(-1), peaks[10], 'memory grows with steps');

  const shape = { layers: 2, dim: 16, heads: 2, vocab: 48, seq: 8 };
  const shared = { parallel: { strategy: 'FULL_SHARD' as const }, batch: 4 };
  const own = await job.train({
    ...shared,
    model: ({ nn }) => nn.gpt({ layers: 2, dim: 16, heads: 2, vocab: 48, seq: 8 }),
    data: ({ tf, rank }, index) => {
      const start = index * 7919 + rank * 104729;
      const rows = Array.from({ length: 36 }, (_, i) => (start + i * 31) % 48);
      const ids = rows.filter((_, i) => i % 9 !== 8);
      const targets = rows.filter((_, i) => i % 9 !== 0);
      return { inputs: [tf.tensor(ids, [4, 8], 'int32'), tf.tensor(targets, [32], 'int32')] };
    },
  });
  const builtIn = await job.train({ ...shared, model: { kind: 'gpt', ...shape }, data: 'synthetic' });
  await own.step(3);
  await builtIn.step(3);
  assert.deepEqual(own.losses, builtIn.losses);
  const bytes = (run: typeof own) =>
    run.records.ofStep(3).map(({ memory, collectives, tokens }) => ({
      tokens,
      peak: memory.peakBytes,
      owners: memory.owners,
      sent: collectives.map(({ cause, module, bytes: sent, wireBytes }) => ({
        cause,
        module,
        sent,
        wireBytes,
      })),
    }));
  assert.deepEqual(bytes(own), bytes(builtIn));
  assert.deepEqual(own.view.forecast?.(), builtIn.view.forecast?.());
});
