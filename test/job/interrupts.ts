import assert from 'node:assert/strict';
import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import type { TrainConfigInput } from '../../src/config/train-config';
import { ShardlabError } from '../../src/core/errors';
import { seeded } from '../../src/core/random';
import type { Job, TrainOptions } from '../../src/job/run/job';
import type { Run } from '../../src/job/run/run';
import { temporaryFolder } from './job-fixture';

/** A layout whose work is interrupted. */
export interface Interrupted {
  readonly config: TrainConfigInput;
  readonly options?: TrainOptions;
}

/** Writes a text of 20,000 letters, of which a fifth are validation rows; returns the data of a config. */
export function textData(folder: string): TrainConfigInput['data'] {
  const path = join(folder, 'text.txt');
  writeFileSync(path, 'the quick brown fox jumps over a lazy dog. '.repeat(465));
  return { path, validation: 0.2 };
}

/** Number of interrupts of one layout. */
export const NUM_INTERRUPTS = 24;

/**
 * Interrupts saves, steps, evaluations and samples of a run at moments that a seed chooses; every third interrupt comes twice.
 * Checks that the run continues after each with the losses of an undisturbed run, and that no unfinished checkpoint is left.
 */
export async function interruptRun(
  context: TestContext,
  job: Job,
  { config, options = {} }: Interrupted,
): Promise<void> {
  const { path } = temporaryFolder(context);
  const run = await job.train({ ...config, data: textData(path) }, options);
  const works: readonly (() => Promise<unknown>)[] = [
    () => run.save(join(path, 'saved')),
    () => run.step(8),
    () => run.save(join(path, `saved-${run.lastStep}`)),
    () => run.evaluate(),
    () => run.sample('the ', { tokens: 12 }),
  ];
  const milliseconds = await Promise.all(works.map(() => 0));
  // The first round is slower, because it allocates and compiles.
  for (const [i, work] of [...works.entries(), ...works.entries()]) milliseconds[i] = await timeOf(work);
  const random = seeded(7, JSON.stringify(config));
  let numInterrupted = 0;
  for (let i = 0; i < NUM_INTERRUPTS; i++) {
    const chosen = i % works.length;
    const working = works[chosen]?.().then(
      () => undefined,
      (error: unknown) => error,
    );
    // Ranks hear of the interrupt a little later.
    await delay(0.7 * random.uniform() * (milliseconds[chosen] ?? 0));
    const stops = [job.interrupt()];
    if (i % 3 === 2) stops.push(delay(random.uniform() * 60).then(() => job.interrupt()));
    await Promise.all(stops);
    const error = await working;
    if (error !== undefined) {
      assert.ok(error instanceof ShardlabError && error.code === 'INTERRUPTED', String(error));
      numInterrupted++;
    }
    await goesOn(run, `interrupt ${i} of work ${chosen}`);
  }
  const left = readdirSync(path).filter((name) => name.includes('.saving-') || name.includes('.previous-'));
  assert.deepEqual(left, []);
  context.diagnostic(`${numInterrupted} of ${NUM_INTERRUPTS} works were interrupted, ${run.lastStep} steps`);
  assert.ok(
    numInterrupted > NUM_INTERRUPTS / 4,
    'too few works were interrupted; their times were measured wrongly',
  );
  await checkTwin(job, run, { config: { ...config, data: textData(path) }, options });
  await run.dispose();
}

async function timeOf(work: () => Promise<unknown>): Promise<number> {
  const start = performance.now();
  await work();
  return performance.now() - start;
}

async function goesOn(run: Run, after: string): Promise<void> {
  const { lastStep } = run;
  // On PyTorch, the first two steps after a recovery are slow, because their memory is recorded.
  await run.step(2).catch((error: unknown) => assert.fail(`after ${after}: ${error}`));
  assert.equal(run.lastStep, lastStep + 2, after);
}

/** Checks that an undisturbed run has the same losses. */
async function checkTwin(job: Job, run: Run, { config, options = {} }: Interrupted): Promise<void> {
  const twin = await job.train(config, options);
  await twin.step(run.lastStep);
  assert.deepEqual(run.losses, twin.losses);
  await twin.dispose();
}
