import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import type { Job } from '../../../src/job/run/job';
import { launchFor } from '../job-fixture';
import { OWN } from './own-models';

const STRATEGIES = ['NO_SHARD', 'ZERO_1', 'ZERO_2', 'SHARD_GRAD_OP', 'FULL_SHARD', 'HYBRID_SHARD'] as const;
type Strategy = (typeof STRATEGIES)[number];

const STEPS = 5;

export function configOf(name: string, strategy: Strategy, world: number) {
  const { parts = {}, wrap = 'blocks' } = OWN[name] ?? {};
  const mesh = { dpReplicate: Math.max(1, world / 2), dpShard: Math.min(2, world) };
  return {
    ...parts,
    optimizer: { lr: 1e-2 },
    seed: 3,
    parallel: { strategy, wrap, ...(strategy === 'HYBRID_SHARD' ? { mesh } : {}) },
  };
}

async function lossesOf(job: Job, name: string, strategy: Strategy, world: number) {
  const run = await job.train(configOf(name, strategy, world) as object, { ranks: world });
  await run.step(STEPS);
  const { losses } = run;
  await run.dispose();
  return losses;
}

export function assertClose(found: readonly number[], expected: readonly number[], what: string): void {
  assert.equal(found.length, expected.length, what);
  found.forEach((loss, i) => {
    const bound = 2e-5 * Math.max(1, Math.abs(expected[i] ?? 0));
    assert.ok(Math.abs(loss - (expected[i] ?? Number.NaN)) < bound, `${what}: ${found} and ${expected}`);
  });
}

/** Compares a model's losses in worlds, each with its strategies (or all), with those of one process. */
export async function checkWorlds(
  context: TestContext,
  name: string,
  worlds: Readonly<Record<number, readonly Strategy[] | 'all'>>,
): Promise<void> {
  const job = await launchFor(context, { ranks: 4 });
  const expected = await lossesOf(job, name, 'NO_SHARD', 1);
  for (const [world, strategies] of Object.entries(worlds)) {
    for (const strategy of strategies === 'all' ? STRATEGIES : strategies) {
      assertClose(await lossesOf(job, name, strategy, Number(world)), expected, `${strategy} on ${world}`);
    }
  }
}
