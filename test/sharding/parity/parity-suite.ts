import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { STRATEGIES, type StrategyName } from '../../../src/config/strategies';
import type { TrainConfigInput } from '../../../src/config/train-config';
import { whyNoBlas } from '../../support/blas-search';
import { HAS_ALL_CASES } from '../../support/cases';
import { requireSameGradients, requireSameStates, requireTorchLosses } from './parity-checks';
import type { ParityRun } from './parity-rank';
import {
  EPS,
  type EpsName,
  type FinishedRun,
  finishRuns,
  followerOf,
  parallelOf,
  referenceConfig,
  STEPS,
  singleRun,
  temporaryFolder,
} from './parity-runs';

export const EPS_NAMES = ['torch', 'smooth'] as const satisfies EpsName[];

/** The runs of the suite. */
export interface ParityScope {
  readonly blas: 'auto' | 'none';
  /** The worlds, each with AdamW's eps that its ranks train with. One process trains with both in every world. */
  readonly worlds: Readonly<Record<number, readonly EpsName[]>>;
  readonly strategies: readonly StrategyName[];
  /** Steps of the ranks' runs. One process trains as many steps as torch recorded, and all of its losses are compared. */
  readonly steps: number;
  /** Whether gradients are compared under torch's eps too; a process then follows the parameters of each run. */
  readonly following: boolean;
}

/** The naive forms and the naive loop, with their strategies. */
const NAIVE = {
  'naive DDP': { naive: 'DDP', strategy: 'NO_SHARD' },
  'naive FSDP': { naive: 'FSDP', strategy: 'FULL_SHARD' },
  'naive loop of naive DDP': { naive: 'DDP', strategy: 'NO_SHARD', byNaiveLoop: true },
} as const satisfies Record<string, Pick<ParityRun, 'naive' | 'byNaiveLoop'> & { strategy: StrategyName }>;
type NaiveForm = keyof typeof NAIVE;
const NAIVE_NAMES = Object.keys(NAIVE) as NaiveForm[]; // its own keys

/** The settings that train by a strategy, or by a naive form. */
function formOf(
  form: StrategyName | NaiveForm,
  eps: number,
  world: number,
  more: TrainConfigInput = {},
): Pick<ParityRun, 'config' | 'naive' | 'byNaiveLoop'> {
  if (!(form in NAIVE)) {
    return { config: referenceConfig(eps, { parallel: parallelOf(form as StrategyName, world), ...more }) };
  }
  const { strategy, ...naive } = NAIVE[form as NaiveForm]; // one of them, as just checked
  return { config: referenceConfig(eps, { parallel: { strategy }, ...more }), ...naive };
}

/** Compares every strategy and naive form with one process, and with torch's losses, in every world of a scope. */
export function testParity(what: string, scope: ParityScope): void {
  describe(what, { skip: scope.blas === 'auto' && whyNoBlas() }, () => {
    const folder = temporaryFolder();
    after(() => folder.remove());
    testWorlds(scope, folder.path);
    testAccumulation(scope, folder.path);
    testOddSizes(scope, folder.path);
  });
}

function testWorlds({ blas, worlds, strategies, steps, following }: ParityScope, folder: string): void {
  const numbers = Object.keys(worlds).map(Number);
  const stepsAlone = { torch: STEPS, smooth: steps } as const;
  const single = finishRuns(
    1,
    blas,
    numbers.flatMap((world) => EPS_NAMES.map((eps) => singleRun(folder, eps, world, 1, stepsAlone[eps]))),
  );
  single.catch(() => undefined); // each test that awaits it reports its failure
  const aloneAs = async (world: number, eps: EpsName): Promise<FinishedRun> => {
    const found = (await single).find(({ run }) => run.name === `single-${world}x1-${eps}`);
    assert.ok(found);
    return found;
  };

  for (const world of numbers) {
    test(`one process with the batches of ${world} ranks equals torch for ${STEPS} steps`, async (t) => {
      requireTorchLosses(await aloneAs(world, 'torch'), world, t);
    });

    test(`${world} ranks equal torch and one process, step by step, under every strategy and naive form`, async (t) => {
      const runs = [...strategies, ...NAIVE_NAMES].flatMap((form) =>
        (worlds[world] ?? []).map((eps) => {
          const name = `${form}-${world}-${eps}`;
          return { name, ...formOf(form, EPS[eps], world, { steps }), folder: join(folder, name), eps };
        }),
      );
      const finished = await finishRuns(world, blas, runs);
      // With torch's eps parameters diverge by amplified noise, so gradients are compared for the same parameters.
      const amplified = following ? runs.filter(({ eps }) => eps === 'torch') : [];
      const followed = await finishRuns(
        1,
        blas,
        amplified.map((run) => followerOf(run, world)),
      );
      for (const [i, run] of finished.entries()) {
        const eps = runs[i]?.eps ?? 'smooth';
        await t.test(`${run.run.name} eps`, async (sub) => {
          const alone = await aloneAs(world, eps);
          const follower = followed.find(({ run: other }) => other.name === `${run.run.name}-follower`);
          if (eps === 'torch') requireTorchLosses(run, world, sub);
          if (eps === 'smooth' || following) requireSameGradients(run, follower ?? alone, sub);
          requireSameStates(run, alone, eps, sub);
        });
      }
    });
  }
}

/** Of the usual run, naive forms and, where all cases run, hybrid strategies, because settings-parity has the others. */
function testAccumulation({ blas, strategies, steps, following }: ParityScope, folder: string): void {
  const compared = strategies.filter(
    (strategy) => following || (HAS_ALL_CASES && STRATEGIES[strategy].isHybrid),
  );
  test('microbatches add up to the large batch, reduced each or once', async (t) => {
    const [large] = await finishRuns(1, blas, [singleRun(folder, 'smooth', 2, 3, steps)]);
    const naive = NAIVE_NAMES.map((form): ParityRun => {
      const name = `${form}-accumulation`;
      const more = { accumulation: 3, steps };
      return { name, ...formOf(form, EPS.smooth, 2, more), folder: join(folder, name) };
    });
    const runs = compared.flatMap((strategy) =>
      [true, false].map((noSync): ParityRun => {
        const name = `${strategy}-accumulation, ${noSync ? 'reduced once' : 'reduced each'}`;
        const parallel = { ...parallelOf(strategy, 2), noSync };
        const config = referenceConfig(EPS.smooth, { parallel, accumulation: 3, steps });
        return { name, config, folder: join(folder, name) };
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
}

/** The same forms of the usual run, because settings-parity has the others on 3 ranks. */
function testOddSizes({ blas, strategies, steps, following }: ParityScope, folder: string): void {
  const compared = strategies.filter(
    (strategy) => following || (HAS_ALL_CASES && STRATEGIES[strategy].isHybrid),
  );
  test('3 ranks equal one process for sizes that are not multiples of 3', async (t) => {
    const model = { kind: 'gpt', layers: 2, dim: 10, heads: 2, vocab: 259, seq: 7 } as const;
    const runOf = (name: string, more: TrainConfigInput): ParityRun => {
      return {
        name,
        config: referenceConfig(EPS.smooth, { model, steps, ...more }),
        folder: join(folder, name),
        seeded: true,
      };
    };
    const alone = runOf('odd-single', { batch: 6, parallel: { strategy: 'NO_SHARD' } });
    const [expected] = await finishRuns(1, blas, [{ ...alone, concatenated: { ranks: 3, micros: 1 } }]);
    const runs = [
      ...compared.map((strategy) => runOf(`odd-${strategy}`, { parallel: parallelOf(strategy, 3) })),
      ...NAIVE_NAMES.map((form) => {
        const { strategy: _, ...naive } = NAIVE[form];
        return { ...runOf(`odd-${form}`, {}), ...naive };
      }),
    ];
    for (const finished of await finishRuns(3, blas, runs)) {
      await t.test(finished.run.name, (sub) => {
        assert.ok(expected);
        requireSameGradients(finished, expected, sub);
        requireSameStates(finished, expected, 'smooth', sub);
      });
    }
  });
}
