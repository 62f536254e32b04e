import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Fault } from '../../../src/launch/control/faults';
import { launchFor, launchForAll } from '../job-fixture';
import { configOf } from './small-config';

const job = launchForAll({ ranks: 4 });

async function lossesWith(faults: readonly Fault[], strategy: 'FULL_SHARD' | 'NO_SHARD' = 'FULL_SHARD') {
  const run = await job().train(configOf(strategy), { faults });
  await run.step(3);
  await run.dispose();
  return [...run.losses];
}

test('each fault changes the losses from the step on in which it can act, and a slow link changes none', async () => {
  const sound = await lossesWith([]);
  const firstOther = async (at: string, kind: Fault['do']): Promise<number> => {
    const losses = await lossesWith([{ rank: 2, at, do: kind }]);
    return losses.findIndex((loss, i) => loss !== sound[i]) + 1;
  };
  assert.equal(await firstOther('reduceScatter layer 1', 'skip'), 2);
  assert.equal(await firstOther('reduceScatter layer 1', 'double'), 2);
  assert.equal(await firstOther('reduceScatter layer 1', 'stale'), 3);
  assert.equal(await firstOther('reduceScatter layer 1 step 2', 'skip'), 3);
  assert.equal(await firstOther('allGather layer 1', 'skip'), 1);
  assert.equal(await firstOther('allGather layer 1', 'stale'), 2);
  assert.equal(await firstOther('forward layer 1', 'nan'), 1);
  assert.equal(await firstOther('optimizer', 'stale'), 3);
  const slow = { rank: 2, at: 'reduceScatter layer 1', do: 'slow link', seconds: 0.01 } as const;
  assert.deepEqual(await lossesWith([slow]), sound);
});

test('half of a doubled and a skipped contribution is the sound one', async () => {
  const [skipped, sound, doubled] = await Promise.all(
    (['skip', null, 'double'] as const).map(async (kind) => {
      const faults = kind === null ? [] : [{ rank: 1, at: 'allReduce step 1', do: kind }];
      const run = await job().train(configOf('NO_SHARD'), { faults });
      const summary = await run.step();
      await run.dispose();
      return summary.lastLoss;
    }),
  );
  // The loss itself is averaged by an all-reduce, in which rank 1 leaves its loss out, or counts it twice.
  assert.ok(Math.abs((skipped ?? 0) + (doubled ?? 0) - 2 * (sound ?? 0)) < 1e-5);
});

for (const [at, kind] of [
  ['reduceScatter layer 2', 'wrong order'],
  ['reshard layer 1', 'skip'],
] as const) {
  test(`'${kind}' at ${at} is a mismatch of collectives, which names both`, async () => {
    const run = await job().train(configOf('FULL_SHARD'), { faults: [{ rank: 2, at, do: kind }] });
    await assert.rejects(run.step(2), {
      code: 'COLLECTIVE_MISMATCH',
      message: /ranks 0, 1, 3 called (allGather|reduceScatter) .*; rank 2 called/s,
    });
    await run.dispose();
  });
}

test("'wrong order' needs another collective before the result is used", async () => {
  const faults = [{ rank: 2, at: 'reduceScatter root', do: 'wrong order' }] as const;
  const run = await job().train(configOf('FULL_SHARD'), { faults });
  await assert.rejects(run.step(), { code: 'CONFIG', message: /reduceScatter \(#\d+\) has no neighbour/ });
  await run.dispose();
});

test('a killed rank ends the step with an error that names it', async (context) => {
  const two = await launchFor(context, { ranks: 2 });
  const run = await two.train(configOf('FULL_SHARD'), {
    faults: [{ rank: 1, at: 'backward layer 0 step 2', do: 'kill' }],
  });
  await assert.rejects(run.step(3), {
    message:
      /rank 1's process ended \(SIGKILL\).*its last words: the planted fault of rank 1 at 'backward layer 0 step 2': 'kill'/s,
  });
  assert.equal(run.lastStep, 1);
});

test('an interrupt ends the wait of a slow link, and the job works on', async (context) => {
  const two = await launchFor(context, { ranks: 2 });
  const faults = [{ rank: 1, at: 'reduceScatter layer 3', do: 'slow link', seconds: 60 }] as const;
  const run = await two.train(configOf('FULL_SHARD'), { faults });
  const start = performance.now();
  const ended = assert.rejects(run.step(2), { code: 'INTERRUPTED' });
  await new Promise((resolve) => setTimeout(resolve, 1000));
  await two.interrupt();
  await ended;
  assert.ok(performance.now() - start < 30_000);
  const next = await two.train(configOf('FULL_SHARD'));
  assert.equal((await next.step()).planted, null);
});

test('a fault that matches no point says so after the first step, with the points that there are', async (context) => {
  const written: string[] = [];
  context.mock.method(process.stderr, 'write', (text: string) => {
    written.push(text);
    return true;
  });
  const run = await job().train(configOf('NO_SHARD'), {
    faults: [{ rank: 2, at: 'reduceScatter layer 1', do: 'skip' }],
  });
  const summary = await run.step(2);
  context.mock.restoreAll();
  await run.dispose();
  assert.equal(summary.planted, '1 fault planted');
  const warnings = written.filter((text) => text.includes('does nothing'));
  assert.equal(warnings.length, 1);
  assert.match(
    warnings[0] ?? '',
    /the fault of rank 2 at 'reduceScatter layer 1': 'skip' does nothing: .* points: data, forward, forward blocks\.0,/,
  );
});

test('faults of cells act until they are removed, and a summary says so', async (context) => {
  const written: string[] = [];
  context.mock.method(process.stderr, 'write', (text: string) => {
    written.push(text);
    return true;
  });
  const sums = () =>
    job()
      .on('all')
      .run(({ rank, dist, tf }) => {
        const tensors = [tf.tensor1d([rank + 1]), tf.tensor1d([10])];
        for (const work of tensors.map((tensor) => dist.allReduce(tensor, { asyncOp: true }))) work.wait();
        return tensors.map((tensor) => tensor.dataSync()[0]);
      });
  const all = (values: readonly number[]) => Array.from({ length: 4 }, () => values);
  await job().plant([{ rank: 1, at: 'allReduce', do: 'skip' }]);
  assert.deepEqual(await sums(), all([8, 30]));
  assert.match(written.join(''), /1 fault planted in the job's cells and functions/);
  await job().plant([{ rank: 1, at: 'allReduce', do: 'double' }]);
  assert.deepEqual(await sums(), all([12, 50]));
  // Two all-reduces that one line calls are equal to the ranks' comparison, so they exchange their values.
  await job().plant([{ rank: 2, at: 'allReduce', do: 'wrong order' }]);
  assert.deepEqual(await sums(), [
    [17, 33],
    [17, 33],
    [33, 17],
    [17, 33],
  ]);
  await job().plant([]);
  assert.deepEqual(await sums(), all([10, 40]));
  const run = await job().train(configOf('NO_SHARD'));
  assert.equal((await run.step()).planted, null);
  await run.dispose();
});
