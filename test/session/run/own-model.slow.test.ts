import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import type { Job } from '../../../src/session/run/job';
import { HAS_ALL_CASES, valuesHere } from '../../support/cases';
import { temporaryFolder } from '../job-fixture';
import {
  checkContinues,
  checkInTurn,
  checkTorch,
  configOf,
  launchOwn,
  type Strategy,
} from './own-model-cases';
import { OWN } from './own-models';

/** What each model of a user's own trains under here; the long test has all strategies and worlds. */
const CASES: readonly (readonly [Strategy, number])[] = [
  ['FULL_SHARD', 3],
  ['ZERO_2', 2],
  ['HYBRID_SHARD', 4],
  ['SHARD_GRAD_OP', 4],
  ['ZERO_1', 3],
  ['NO_SHARD', 2],
];

const launched = launchOwn();

test('models of a user train as in torch', async (context) => {
  const { path } = temporaryFolder(context);
  const job = await launched();
  const names = Object.keys(OWN).entries();
  for (const [i, name] of [...names].filter(([at]) => HAS_ALL_CASES || at % 2 === 0)) {
    await context.test(name, () => checkTorch(job, path, name, CASES[i % CASES.length] ?? assert.fail(name)));
  }
  await context.test('runs on different ranks of one job train in turn, each with its own batch norms', () =>
    checkInTurn(job, 'a ResNet with batch norms'),
  );
  await context.test('rows of a validation function count once at every world', () => checkValidation(job));
  for (const name of valuesHere(['a tied GPT', 'a model with frozen parts', 'a tf.LayersModel'], [1])) {
    await context.test(`${name} continues after a save, a load and a reshard`, () =>
      checkContinues(job, join(path, 'continues', name), name),
    );
  }
});

test('a model of its own learns, and its ledger is that of the built-in model', async () => {
  const job = await launched();
  const learning = await job.train(
    { ...configOf('a residual MLP', 'FULL_SHARD', 2), optimizer: { lr: 3e-2 } },
    { ranks: 2 },
  );
  await learning.step(60);
  const mean = (losses: readonly number[]): number => losses.reduce((a, b) => a + b) / losses.length;
  assert.ok(mean(learning.losses.slice(-20)) < 0.1 * mean(learning.losses.slice(0, 20)));
  const peaks = [...learning.records].map(({ memory }) => memory.peakBytes);
  assert.equal(peaks.at(-1), peaks[10], 'memory grows with steps');

  const shape = { layers: 2, dim: 16, heads: 2, vocab: 48, seq: 8 };
  const shared = { parallel: { strategy: 'FULL_SHARD' as const }, batch: 4 };
  const own = await job.train(
    {
      ...shared,
      model: ({ nn }) => nn.gpt({ layers: 2, dim: 16, heads: 2, vocab: 48, seq: 8 }),
      data: ({ tf, rank }, index) => {
        const start = index * 7919 + rank * 104729;
        const rows = Array.from({ length: 36 }, (_, i) => (start + i * 31) % 48);
        const ids = rows.filter((_, i) => i % 9 !== 8);
        const targets = rows.filter((_, i) => i % 9 !== 0);
        return { inputs: [tf.tensor(ids, [4, 8], 'int32'), tf.tensor(targets, [32], 'int32')] };
      },
    },
    { ranks: 2 },
  );
  const input = { ...shared, model: { kind: 'gpt', ...shape }, data: 'synthetic' } as const;
  const builtIn = await job.train(input, { ranks: 2 });
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

async function checkValidation(job: Job): Promise<void> {
  const found: { readonly loss: number; readonly rows: number }[] = [];
  for (const ranks of [1, 2, 4]) {
    const run = await job.train(
      {
        model: ({ nn }) => new nn.Linear(2, 1),
        loss: (output, { y }, { tf }) => tf.losses.meanSquaredError(y, output),
        data: {
          train: ({ tf }) => ({ x: tf.ones([4, 2]), y: tf.ones([4, 1]) }),
          // Batches of 1, 2, 3, 4 and 5 rows, whose values depend on the index alone.
          validation: ({ tf }, index) =>
            index >= 5 ? undefined : { x: tf.fill([index + 1, 2], index), y: tf.zeros([index + 1, 1]) },
        },
      },
      { ranks },
    );
    const { loss, rows } = await run.evaluate();
    found.push({ loss: Number(loss.toPrecision(6)), rows });
    await run.dispose();
  }
  const [alone = assert.fail()] = found;
  assert.equal(alone.rows, 15);
  assert.deepEqual(found, [alone, alone, alone]);
}
