import assert from 'node:assert/strict';
import { test } from 'node:test';
import { registerDisplay } from '../../../src/cell/display';
import type { Job } from '../../../src/session/run/job';
import type { Run } from '../../../src/session/run/run';
import { heldBytes } from '../../support/held-bytes';
import { launchFor } from '../job-fixture';

const NUM_STEPS = 20_000;
/** Code is compiled and caches fill. */
const WARM_UP = 1000;
const CONFIG = {
  model: { kind: 'gpt', layers: 1, dim: 16, heads: 2, vocab: 64, seq: 8 },
  data: 'synthetic',
  parallel: { strategy: 'FULL_SHARD' },
} as const;

/*
 * [Note: what is flat] Resident memory as a whole says little: V8 collects old garbage at any time, so that the heap of a rank
 * that holds 38 MB of objects has any size from 85 to 185 MB. The test compares the memory after a garbage collection, from the
 * first 1,000 steps on: within 5%. The same holds for the median over 5,000 steps of memory outside the main thread's heap: the
 * engine's heap, native code, and the heaps of the other threads, which cannot be forced to collect but are small.
 */

/** The memory of processes after a garbage collection. */
interface Held {
  readonly launcher: number;
  /** By rank: V8's heap and the memory outside it, with the engine's heap. */
  readonly ranks: readonly number[];
  /** By rank: bytes and tensors that are alive. */
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

/** As in notebooks: many steps in a call, and many calls of one step. */
async function thousand(run: Run): Promise<void> {
  await run.step(900);
  for (let i = 0; i < 100; i++) await run.step();
}

/** Median of a rank's resident memory outside of V8's heap at the ends of steps. */
function medianOutside(run: Run, rank: number, first: number, last: number): number {
  const sizes = [];
  for (const { rank: other, step, memory } of run.records) {
    if (other !== rank || step < first || step > last || memory.process === null) continue;
    sizes.push(memory.process.rssBytes - memory.process.javascriptBytes);
  }
  return sizes.sort((a, b) => a - b)[sizes.length >> 1] ?? Number.NaN;
}

function megabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(2)} MB`;
}

test('over 20,000 steps at 2 ranks, the memory of launcher and ranks stays within 5% after the first 1,000', async (context) => {
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
    const early = medianOutside(run, rank, WARM_UP + 1, WARM_UP + 5000);
    const late = medianOutside(run, rank, NUM_STEPS - 5000, NUM_STEPS);
    context.diagnostic(`rank ${rank}: outside of V8's heap ${megabytes(early)} → ${megabytes(late)}`);
    assert.ok(late < early * 1.05, `rank ${rank}: resident ${megabytes(early)} → ${megabytes(late)}`);
  }
  assert.deepEqual(last.tensors, first.tensors);
  assert.equal(run.losses.length, NUM_STEPS);
});
