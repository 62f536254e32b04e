import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, describe, type TestContext, test } from 'node:test';
import type { TrainConfigInput } from '../../src/config/train-config';
import { whyNoBlas } from '../support/blas-search';
import {
  AMPLIFIED_BOUND,
  type Comparison,
  compareStates,
  RELATIVE_BOUND,
  ZERO_BY_THEORY_BOUND,
} from './compare-states';
import type { ParityRun } from './parity-rank';
import {
  EPS,
  type EpsName,
  type FinishedRun,
  finishRuns,
  followerOf,
  referenceConfig,
  STEPS,
  STRATEGY_NAMES,
  singleRun,
  temporaryFolder,
  torchLosses,
} from './parity-runs';
import { readStep } from './state-dump';

const WORLDS = [1, 2, 4];
const EPS_NAMES = ['torch', 'smooth'] as const satisfies EpsName[];

for (const blas of ['auto', 'none'] as const) {
  const skip = blas === 'auto' ? whyNoBlas() : false;
  describe(blas === 'auto' ? 'with a BLAS' : 'without a BLAS', { skip }, () => {
    const folder = temporaryFolder();
    after(() => folder.remove());
    const single = finishRuns(
      1,
      blas,
      WORLDS.flatMap((world) => EPS_NAMES.map((eps) => singleRun(folder.path, eps, world))),
    );
    single.catch(() => undefined); // each test that awaits it reports its failure

    for (const world of WORLDS) {
      test(`${world} ranks equal torch and one process, step by step, under every strategy`, async (t) => {
        const runs = STRATEGY_NAMES.flatMap((strategy) =>
          EPS_NAMES.map((eps): ParityRun => {
            const name = `${strategy}-${world}-${eps}`;
            const config = referenceConfig(EPS[eps], { parallel: { strategy } });
            return { name, config, folder: join(folder.path, name) };
          }),
        );
        const finished = await finishRuns(world, blas, runs);
        const followed = await finishRuns(
          1,
          blas,
          runs.map((run) => followerOf(run, world)),
        );
        for (const [i, run] of finished.entries()) {
          const eps = run.run.name.endsWith('torch') ? 'torch' : 'smooth';
          const name = `single-${world}x1-${eps}`;
          await t.test(`${run.run.name} eps`, async (sub) => {
            const alone = (await single).find((other) => other.run.name === name);
            const follower = followed[i];
            assert.ok(alone && follower);
            if (eps === 'torch') requireTorchLosses(run, world, sub);
            requireSameGradients(run, follower, sub);
            requireSameStates(run, alone, eps, sub);
          });
        }
      });
    }

    test('micro-batches add up to the large batch, under every strategy', async (t) => {
      const [large] = await finishRuns(1, blas, [singleRun(folder.path, 'smooth', 2, 3)]);
      const runs = STRATEGY_NAMES.map((strategy): ParityRun => {
        const name = `${strategy}-accumulation`;
        const config = referenceConfig(EPS.smooth, { parallel: { strategy }, accumulation: 3 });
        return { name, config, folder: join(folder.path, name) };
      });
      for (const finished of await finishRuns(2, blas, runs)) {
        await t.test(finished.run.name, (sub) => {
          assert.ok(large);
          requireSameGradients(finished, large, sub);
          requireSameStates(finished, large, 'smooth', sub);
        });
      }
    });

    test('3 ranks equal one process where no size is a multiple of 3', async (t) => {
      const model = { kind: 'gpt', layers: 2, dim: 10, heads: 2, vocab: 259, seq: 7 } as const;
      const runOf = (name: string, more: TrainConfigInput): ParityRun => {
        return {
          name,
          config: referenceConfig(EPS.smooth, { model, ...more }),
          folder: join(folder.path, name),
          seeded: true,
        };
      };
      const alone = runOf('odd-single', { batch: 6, parallel: { strategy: 'NO_SHARD' } });
      const [expected] = await finishRuns(1, blas, [{ ...alone, concatenated: { ranks: 3, micros: 1 } }]);
      const runs = STRATEGY_NAMES.map((strategy) => runOf(`odd-${strategy}`, { parallel: { strategy } }));
      for (const finished of await finishRuns(3, blas, runs)) {
        await t.test(finished.run.name, (sub) => {
          assert.ok(expected);
          requireSameGradients(finished, expected, sub);
          requireSameStates(finished, expected, 'smooth', sub);
        });
      }
    });
  });
}

function requireTorchLosses({ results }: FinishedRun, world: number, t: TestContext): void {
  const expected = torchLosses(world);
  let worst = 0;
  for (const { losses } of results) {
    assert.equal(losses.length, STEPS);
    losses.forEach((loss, step) => {
      const difference = Math.abs(loss - (expected[step] ?? Number.NaN));
      assert.ok(difference <= 2e-4, `step ${step}: loss ${loss}, torch ${expected[step]}`);
      worst = Math.max(worst, difference);
    });
  }
  t.diagnostic(`losses differ from torch's by at most ${worst.toExponential(1)} of 2.0e-4`);
}

/** Losses, gradients before clipping and their norm at every step are those of one process with the same parameters. */
function requireSameGradients(finished: FinishedRun, single: FinishedRun, t: TestContext): void {
  const [expected] = single.results;
  assert.ok(expected);
  for (const { losses, gradNorms } of finished.results) {
    for (let step = 0; step < STEPS; step++) {
      requireClose(losses[step], expected.losses[step], `loss of step ${step}`);
      requireClose(gradNorms[step], expected.gradNorms[step], `gradient norm of step ${step}`);
    }
  }
  requireWithin(finished, single, t, ({ relative, zeroByTheory }) => [
    { what: 'gradients', bound: RELATIVE_BOUND, ...relative.grad },
    { what: "keys' bias gradients", bound: ZERO_BY_THEORY_BOUND, ...zeroByTheory.grad },
  ]);
}

/** Parameters and AdamW's moments at every step are those of one process that trained by itself. */
function requireSameStates(finished: FinishedRun, single: FinishedRun, eps: EpsName, t: TestContext): void {
  const fields = ['values', 'expAvg', 'expAvgSq'] as const;
  requireWithin(finished, single, t, ({ relative, zeroByTheory, absolute }) =>
    fields.flatMap((field) =>
      eps === 'torch'
        ? [{ what: field, bound: AMPLIFIED_BOUND, ...absolute[field] }]
        : [
            { what: field, bound: RELATIVE_BOUND, ...relative[field] },
            { what: `keys' bias ${field}`, bound: ZERO_BY_THEORY_BOUND, ...zeroByTheory[field] },
          ],
    ),
  );
}

interface Bounded {
  readonly what: string;
  readonly value: number;
  readonly where: string;
  readonly bound: number;
}

function requireWithin(
  finished: FinishedRun,
  single: FinishedRun,
  t: TestContext,
  bounds: (comparison: Comparison) => Bounded[],
): void {
  const worst = new Map<string, number>();
  for (let step = 0; step < STEPS; step++) {
    const ranks = readStep(finished.run.folder, finished.world, step);
    for (const { what, value, where, bound } of bounds(
      compareStates(ranks, readStep(single.run.folder, 1, step)),
    )) {
      assert.ok(value <= bound, `step ${step}: ${what} differ by ${value} > ${bound} in ${where}`);
      worst.set(what, Math.max(worst.get(what) ?? 0, value));
    }
  }
  t.diagnostic(
    `largest differences: ${[...worst].map(([what, value]) => `${what} ${value.toExponential(1)}`).join(', ')}`,
  );
}

function requireClose(actual = Number.NaN, expected = Number.NaN, what = ''): void {
  assert.ok(
    Math.abs(actual - expected) <= RELATIVE_BOUND * Math.abs(expected),
    `${what}: ${actual}, one process has ${expected}`,
  );
}
