import assert from 'node:assert/strict';
import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import type { TrainConfigInput } from '../../src/config/train-config';
import { ShardlabError } from '../../src/core/errors';
import { seeded } from '../../src/core/random';
import type { Job, TrainOptions } from '../../src/session/run/job';
import type { Run } from '../../src/session/run/run';
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

/** Number of works of one layout that are interrupted before they have ended. */
const NUM_INTERRUPTED = 24;
const MOST_ATTEMPTS = 10 * NUM_INTERRUPTED;

/**
 * Interrupts saves, steps, evaluations and samples of a run at moments that a seed chooses; every third interrupt comes twice.
 * Works that end before the interrupt arrives do not count. Checks that the run continues after each interrupt with the losses of
 * an undisturbed run, and that no unfinished checkpoint is left.
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
  // The times in which interrupts come; the last measured round counts, because the first allocates and compiles.
  const windows = works.map(() => 0);
  for (const [i, work] of [...works.entries(), ...works.entries()]) windows[i] = await timeOf(work);
  const random = seeded(7, JSON.stringify(config));
  const numInterrupted = works.map(() => 0);
  let attempts = 0;
  for (; sumOf(numInterrupted) < NUM_INTERRUPTED && attempts < MOST_ATTEMPTS; attempts++) {
    const chosen = attempts % works.length;
    const [work, window = 0] = [works[chosen], windows[chosen]];
    if (work === undefined) continue;
    const isInterrupted = await interrupt(
      job,
      work(),
      random.uniform() * window,
      attempts % 3 === 2 ? random.uniform() * 60 : null,
    );
    numInterrupted[chosen] = (numInterrupted[chosen] ?? 0) + Number(isInterrupted);
    // The machine may be faster or slower than it was when the work was measured.
    windows[chosen] = window * (isInterrupted ? 1.1 : 0.8);
    await goesOn(run, `interrupt ${attempts} of work ${chosen}`);
  }
  // Threads that write checkpoints give up a little later than the ranks' work ends.
  const unfinished = (): string[] =>
    readdirSync(path).filter((name) => /\.(saving|previous|failed)-/.test(name));
  for (let wait = 0; wait < 100 && unfinished().length > 0; wait++) await delay(100);
  assert.deepEqual(unfinished(), []);
  context.diagnostic(
    `works [${numInterrupted}] were interrupted in ${attempts} attempts, ${run.lastStep} steps`,
  );
  // Evaluations and samples as short as these end before the time in which an interrupt lets them end.
  assert.ok(
    [0, 1, 2].every((work) => (numInterrupted[work] ?? 0) > 0),
    `${numInterrupted}`,
  );
  assert.equal(sumOf(numInterrupted), NUM_INTERRUPTED);
  await checkTwin(job, run, { config: { ...config, data: textData(path) }, options });
  await run.dispose();
}

/** Interrupts a work after some milliseconds, and again after `again` more. Returns whether the work had not ended before. */
async function interrupt(
  job: Job,
  working: Promise<unknown>,
  milliseconds: number,
  again: number | null,
): Promise<boolean> {
  const outcome = working.then(
    () => undefined,
    (error: unknown) => error,
  );
  await delay(milliseconds);
  const stops = [job.interrupt()];
  if (again !== null) stops.push(delay(again).then(() => job.interrupt()));
  await Promise.all(stops);
  const error = await outcome;
  if (error === undefined) return false;
  assert.ok(error instanceof ShardlabError && error.code === 'INTERRUPTED', String(error));
  return true;
}

function sumOf(numbers: readonly number[]): number {
  return numbers.reduce((sum, number) => sum + number, 0);
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
