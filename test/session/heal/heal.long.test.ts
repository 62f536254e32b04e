import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { seeded } from '../../../src/core/random';
import type { Job } from '../../../src/session/run/job';
import { launchFor, temporaryFolder } from '../job-fixture';
import {
  armKill,
  assertEqualToTheBit,
  LAYOUTS,
  NUM_STEPS,
  numCollectives,
  randomKill,
  reshardedAfter,
  type Trained,
  trained,
  trainThroughKill,
  WITHIN,
} from './heal-cases';

const NUM_KILLS = 30;
const NUM_FEWER = 10;
/** The layouts that 3 ranks can have. */
const FOR_THREE = ['DDP', 'FULL_SHARD', 'ZERO_1', 'ZERO_2'] as const;
const COPIES = { inMemoryCheckpointSteps: 2 } as const;

/** A run that nothing disturbs, and how many collectives rank 0 calls per step. */
async function undisturbed(
  job: Job,
  name: string,
  folder: string,
): Promise<Trained & { readonly perStep: number }> {
  const run = await job.train(LAYOUTS[name]);
  await run.step(3);
  await armKill(job, 0, 0);
  await run.step(1);
  const perStep = await numCollectives(job, 0);
  await run.step(NUM_STEPS - 4);
  const end = await trained(run, folder);
  await run.dispose();
  return { ...end, perStep };
}

test(`${NUM_KILLS} runs with a kill at a random event are healed, equal to the bit`, async (context) => {
  const { path } = temporaryFolder(context);
  const job = await launchFor(context, { ranks: 4 });
  const random = seeded(5, 'kills');
  const names = Object.keys(LAYOUTS);
  const known = new Map<string, Trained & { readonly perStep: number }>();
  for (let i = 0; i < NUM_KILLS; i++) {
    const name = names[i % names.length] ?? '';
    const expected = known.get(name) ?? (await undisturbed(job, name, join(path, 'expected')));
    known.set(name, expected);
    const kill = randomKill(random, 3 * expected.perStep);
    const { run, step } = await trainThroughKill(job, LAYOUTS[name] ?? {}, COPIES, kill);
    const what = `${i}: ${name}, rank ${kill.rank} in its collective ${kill.nth}, healed from step ${step}`;
    context.diagnostic(what);
    assertEqualToTheBit(await trained(run, join(path, 'found')), expected, what);
    await run.dispose();
  }
});

test('a kill at any event of a copy leaves the copy before, or the whole new one', async (context) => {
  const { path } = temporaryFolder(context);
  const job = await launchFor(context, { ranks: 4 });
  const expected = await undisturbed(job, 'DDP', join(path, 'expected'));
  const steps = new Set<number>();
  // Step 4, then the copy: the counts, the sizes, a send, a receive, the barrier; then step 5.
  for (let nth = 1; nth <= expected.perStep + 6; nth++) {
    const { run, step } = await trainThroughKill(job, LAYOUTS.DDP ?? {}, COPIES, { rank: nth % 4, nth });
    context.diagnostic(`collective ${nth}: from step ${step}`);
    steps.add(step);
    assertEqualToTheBit(await trained(run, join(path, 'found')), expected, `collective ${nth}`);
    await run.dispose();
  }
  assert.deepEqual([...steps], [2, 4]);
});

test(`${NUM_FEWER} jobs that lose a rank continue with 3, within rounding of runs that were resharded`, async (context) => {
  const { path } = temporaryFolder(context);
  const whole = await launchFor(context, { ranks: 4 });
  const random = seeded(6, 'fewer');
  const known = new Map<string, readonly number[]>();
  for (let i = 0; i < NUM_FEWER; i++) {
    const name = FOR_THREE[i % FOR_THREE.length] ?? 'DDP';
    const config = LAYOUTS[name] ?? {};
    const job = await launchFor(context, { ranks: 4 });
    const kill = randomKill(random, name === 'FULL_SHARD' ? 50 : 6);
    const { run, step } = await trainThroughKill(job, config, COPIES, kill, { ranks: 3 });
    const key = `${name} from step ${step}`;
    const expected = known.get(key) ?? (await reshardedAfter(whole, config, step, 3));
    known.set(key, expected);
    const differences = run.losses.map((loss, at) => Math.abs(loss - (expected[at] ?? Number.NaN)));
    context.diagnostic(`${i}: ${key}, rank ${kill.rank}: at most ${Math.max(...differences)}`);
    assert.ok(
      run.losses.length === NUM_STEPS && differences.every((difference) => difference <= WITHIN),
      `${key}: ${run.losses} and not ${expected}`,
    );
    await run.save(join(path, 'end'));
    await job.shutdown();
  }
});
