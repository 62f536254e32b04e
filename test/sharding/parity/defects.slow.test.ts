import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import type { StrategyName } from '../../../src/config/strategies';
import { STRATEGIES } from '../../../src/config/strategies';
import { HAS_ALL_CASES } from '../../support/cases';
import { compareStates, RELATIVE_BOUND } from './compare-states';
import type { Mutation } from './mutated-group';
import type { ParityRun } from './parity-rank';
import {
  EPS,
  finishRuns,
  parallelOf,
  referenceConfig,
  STRATEGY_NAMES,
  singleRun,
  temporaryFolder,
} from './parity-runs';
import { readStep } from './state-dump';

/** Whole states, sharded gradients, sharded parameters, and copies of shards stand for the other strategies. */
const STRATEGIES_HERE = HAS_ALL_CASES
  ? STRATEGY_NAMES
  : STRATEGY_NAMES.filter((name) => ['NO_SHARD', 'ZERO_2', 'FULL_SHARD', 'HYBRID_SHARD'].includes(name));

/** Parameters that stay whole are gathered before the second step. */
const STEPS = 2;

const MUTATIONS = {
  sumForMean: 'a sum taken for a mean',
  missedShard: 'a missed shard',
  doubleCount: 'a gradient that counts twice',
  missedGather: 'parameters that were not gathered',
} as const satisfies Record<Mutation, string>;

const folder = temporaryFolder();
const single = singleRun(folder.path, 'smooth', 2, 1, STEPS);

const runOf = (strategy: StrategyName, mutation: Mutation | null): ParityRun => {
  const name = `${strategy}-${mutation ?? 'sound'}`;
  const parallel = parallelOf(strategy, 2);
  const config = referenceConfig(EPS.smooth, { parallel, steps: STEPS });
  const run = { name, config, folder: join(folder.path, name) };
  return mutation === null ? run : { ...run, mutation };
};

/** The possible defects of a strategy's collectives; with two copies of one shard a gather is within one rank. */
const mutationsOf = (strategy: StrategyName): Mutation[] => {
  const { shardedAtRest, isHybrid } = STRATEGIES[strategy];
  const gathers = shardedAtRest.length > 0 && !isHybrid;
  const all = Object.keys(MUTATIONS) as Mutation[]; // its own keys
  return all.filter((mutation) => mutation !== 'missedGather' || gathers);
};

before(async () => {
  const runs = STRATEGIES_HERE.flatMap((strategy) =>
    [null, ...mutationsOf(strategy)].map((mutation) => runOf(strategy, mutation)),
  );
  await finishRuns(1, 'none', [single]);
  await finishRuns(2, 'none', runs);
});
after(() => folder.remove());

/** The largest over the steps. Copies that differ count as a difference too. */
const gradientDifference = ({ folder: dump }: ParityRun): number => {
  const differences = Array.from({ length: STEPS }, (_, step) => {
    const { relative } = compareStates(readStep(dump, 2, step), readStep(single.folder, 1, step));
    return relative.grad.value;
  });
  return differences.some(Number.isNaN) ? Number.NaN : Math.max(...differences);
};

for (const strategy of STRATEGIES_HERE) {
  test(`the comparison succeeds without a defect under ${strategy}`, () => {
    assert.ok(gradientDifference(runOf(strategy, null)) <= RELATIVE_BOUND);
  });

  for (const mutation of mutationsOf(strategy)) {
    test(`the comparison fails on ${MUTATIONS[mutation]} under ${strategy}`, () => {
      assert.throws(() => {
        assert.ok(gradientDifference(runOf(strategy, mutation)) <= RELATIVE_BOUND);
      });
    });
  }
}
