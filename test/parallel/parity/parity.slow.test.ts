import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import type { StrategyName } from '../../../src/config/strategies';
import type { TrainConfigInput } from '../../../src/config/train-config';
import { whyNoBlas } from '../../support/blas-search';
import { requireSameGradients, requireSameStates, requireTorchLosses } from './parity-checks';
import type { ParityRun } from './parity-rank';
import {
  EPS,
  type EpsName,
  finishRuns,
  followerOf,
  parallelOf,
  referenceConfig,
  STRATEGY_NAMES,
  singleRun,
  temporaryFolder,
} from './parity-runs';

const EPS_NAMES = ['torch', 'smooth'] as const satisfies EpsName[];

/** All worlds and strategies with a BLAS, some without. */
const SCOPES = {
  auto: { what: 'with a BLAS', skip: whyNoBlas(), worlds: [1, 2, 4], strategies: STRATEGY_NAMES },
  none: {
    what: 'without a BLAS',
    skip: false,
    worlds: [2],
    strategies: ['NO_SHARD', 'ZERO_1', 'FULL_SHARD', 'HYBRID_SHARD'],
  },
} as const satisfies Record<
  string,
  { readonly strategies: readonly StrategyName[]; [rest: string]: unknown }
>;

/** The naive forms, and their strategies. */
const NAIVE = {
  'naive DDP': { naive: 'DDP', strategy: 'NO_SHARD' },
  'naive FSDP': { naive: 'FSDP', strategy: 'FULL_SHARD' },
} as const;
const NAIVE_NAMES = ['naive DDP', 'naive FSDP'] as const;

/** The settings that train by a strategy, or by a naive form. */
function formOf(
  form: StrategyName | keyof typeof NAIVE,
  eps: number,
  world: number,
  more: TrainConfigInput = {},
): Pick<ParityRun, 'config' | 'naive'> {
  if (!(form in NAIVE)) {
    return { config: referenceConfig(eps, { parallel: parallelOf(form as StrategyName, world), ...more }) };
  }
  const { naive, strategy } = NAIVE[form as keyof typeof NAIVE]; // one of the two, as just checked
  return { config: referenceConfig(eps, { parallel: { strategy }, ...more }), naive };
}

for (const blas of ['auto', 'none'] as const) {
  const { what, skip, worlds, strategies } = SCOPES[blas];
  describe(what, { skip }, () => {
    const folder = temporaryFolder();
    after(() => folder.remove());
    const single = finishRuns(
      1,
      blas,
      worlds.flatMap((world) => EPS_NAMES.map((eps) => singleRun(folder.path, eps, world))),
    );
    single.catch(() => undefined); // each test that awaits it reports its failure

    for (const world of worlds) {
      test(`${world} ranks equal torch and one process, step by step, under every strategy and naive form`, async (t) => {
        const runs = [...strategies, ...NAIVE_NAMES].flatMap((form) =>
          EPS_NAMES.map((eps) => {
            const name = `${form}-${world}-${eps}`;
            return { name, ...formOf(form, EPS[eps], world), folder: join(folder.path, name), eps };
          }),
        );
        const finished = await finishRuns(world, blas, runs);
        // With torch's eps parameters diverge by amplified noise, so gradients are compared for the same parameters.
        const amplified = runs.filter(({ eps }) => eps === 'torch').map((run) => followerOf(run, world));
        const followed = await finishRuns(1, blas, amplified);
        for (const [i, run] of finished.entries()) {
          const eps = runs[i]?.eps ?? 'smooth';
          await t.test(`${run.run.name} eps`, async (sub) => {
            const alone = (await single).find(({ run: other }) => other.name === `single-${world}x1-${eps}`);
            const follower = followed.find(({ run: other }) => other.name === `${run.run.name}-follower`);
            assert.ok(alone);
            if (eps === 'torch') requireTorchLosses(run, world, sub);
            requireSameGradients(run, follower ?? alone, sub);
            requireSameStates(run, alone, eps, sub);
          });
        }
      });
    }

    test('microbatches add up to the large batch, reduced each or once, under every strategy', async (t) => {
      const [large] = await finishRuns(1, blas, [singleRun(folder.path, 'smooth', 2, 3)]);
      const naive = NAIVE_NAMES.map((form): ParityRun => {
        const name = `${form}-accumulation`;
        return { name, ...formOf(form, EPS.smooth, 2, { accumulation: 3 }), folder: join(folder.path, name) };
      });
      const runs = strategies.flatMap((strategy) =>
        [true, false].map((noSync): ParityRun => {
          const name = `${strategy}-accumulation, ${noSync ? 'reduced once' : 'reduced each'}`;
          const parallel = { ...parallelOf(strategy, 2), noSync };
          const config = referenceConfig(EPS.smooth, { parallel, accumulation: 3 });
          return { name, config, folder: join(folder.path, name) };
        }),
      );
      for (const finished of await finishRuns(2, blas, [...runs, ...naive])) {
        await t.test(finished.run.name, (sub) => {
          assert.ok(large);
          requireSameGradients(finished, large, sub);
          requireSameStates(finished, large, 'smooth', sub);
        });
      }
    });

    test('3 ranks equal one process for sizes that are not multiples of 3', async (t) => {
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
      const runs = [
        ...strategies.map((strategy) => runOf(`odd-${strategy}`, { parallel: parallelOf(strategy, 3) })),
        ...NAIVE_NAMES.map((form) => ({ ...runOf(`odd-${form}`, {}), naive: NAIVE[form].naive })),
      ];
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
