import assert from 'node:assert/strict';
import { test } from 'node:test';
import { registerDisplay } from '../../src/cell/display';
import type { Job } from '../../src/job/job';
import type { Run } from '../../src/job/run';
import { heldBytes } from '../support/held-bytes';
import { launchFor } from './job-fixture';

const NUM_STEPS = 20_000;
/** Code is compiled and caches fill. */
const WARM_UP = 1000;
const CONFIG = {
  model: { kind: 'gpt', layers: 1, dim: 16, heads: 2, vocab: 64, seq: 8 },
  data: 'synthetic',
  parallel: { strategy: 'FULL_SHARD' },
} as const;

/** What processes hold after a collection; it does not depend on when V8 collects by itself. */
interface Held {
  readonly launcher: number;
  /** By rank: V8's heap and what lies outside it, with the engine's heap. */
  readonly ranks: readonly number[];
  /** By rank: bytes and tensors that live. */
  readonly tensors: readonly (readonly [number, number])[];
}

async function held(job: Job): Promise<Held> {
  const ranks = await job.on('all').run(({ tf, engine }) => {
    process.getBuiltinModule('node:v8').setFlagsFromString('--expose-gc');
    const collect = process.getBuiltinModule('node:vm').runInNewContext('gc');
    collect();
    collect();
    const { heapUsed, external } = process.memoryUsage();
    return { bytes: heapUsed + external, tensors: [engine.memory.bytes, tf.memory().numTensors] as const };
  });
  const launcher = heldBytes();
  return { launcher, ranks: ranks.map(({ bytes }) => bytes), tensors: ranks.map(({ tensors }) => tensors) };
}

/** As notebooks do it: many steps in a call, and many calls of one step. */
async function thousand(run: Run): Promise<void> {
  await run.step(900);
  for (let i = 0; i < 100; i++) await run.step();
}

/** Median of what the system says that a rank's process had at the ends of steps. */
function medianRss(run: Run, rank: number, first: number, last: number): number {
  const sizes = [];
  for (const record of run.records) {
    if (record.rank !== rank || record.step < first || record.step > last) continue;
    sizes.push(record.memory.process?.rssBytes ?? Number.NaN);
  }
  return sizes.sort((a, b) => a - b)[sizes.length >> 1] ?? Number.NaN;
}

function megabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(2)} MB`;
}

test('over 20,000 steps at 2 ranks, what launcher and ranks hold stays within 5% after the first 1,000', async (context) => {
  context.after(registerDisplay({ display: () => {}, update: () => {}, clear: () => {} }));
  const job = await launchFor(context, { ranks: 2 });
  const run = await job.train(CONFIG);
  await thousand(run);
  const first = await held(job);
  for (let done = WARM_UP; done < NUM_STEPS; done += 1000) {
    const { launcher, ranks } = await held(job);
    context.diagnostic(`${done} steps: launcher ${megabytes(launcher)}, ranks ${ranks.map(megabytes)}`);
    await thousand(run);
  }
  const last = await held(job);
  assert.ok(
    last.launcher < first.launcher * 1.05,
    `launcher ${megabytes(first.launcher)} → ${megabytes(last.launcher)}`,
  );
  for (const [rank, bytes] of last.ranks.entries()) {
    const before = first.ranks[rank] ?? 0;
    assert.ok(bytes < before * 1.05, `rank ${rank} ${megabytes(before)} → ${megabytes(bytes)}`);
    const [early, late] = [medianRss(run, rank, 1001, 6000), medianRss(run, rank, 15_001, 20_000)];
    context.diagnostic(`rank ${rank}: median RSS ${megabytes(early)} → ${megabytes(late)}`);
    assert.ok(late < early * 1.05, `rank ${rank}: RSS ${megabytes(early)} → ${megabytes(late)}`);
  }
  assert.deepEqual(last.tensors, first.tensors);
  assert.equal(run.losses.length, NUM_STEPS);
});
