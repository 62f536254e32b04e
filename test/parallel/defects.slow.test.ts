import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { compareStates, RELATIVE_BOUND } from './compare-states';
import type { Mutation } from './mutated-group';
import type { ParityRun } from './parity-rank';
import { EPS, finishRuns, referenceConfig, STRATEGY_NAMES, singleRun, temporaryFolder } from './parity-runs';
import { readStep } from './state-dump';

const MUTATIONS = {
  sumForMean: 'a sum taken for a mean',
  missedShard: 'a missed shard',
  doubleCount: 'a gradient that counts twice',
} as const satisfies Record<Mutation, string>;

const folder = temporaryFolder();
const single = singleRun(folder.path, 'smooth', 2, 1, 1);

const sound = (strategy: (typeof STRATEGY_NAMES)[number]): ParityRun => {
  const name = `${strategy}-sound`;
  const config = referenceConfig(EPS.smooth, { parallel: { strategy }, steps: 1 });
  return { name, config, folder: join(folder.path, name) };
};

const defective = (strategy: (typeof STRATEGY_NAMES)[number], mutation: Mutation): ParityRun => {
  const name = `${strategy}-${mutation}`;
  const config = referenceConfig(EPS.smooth, { parallel: { strategy }, steps: 1 });
  return { name, config, folder: join(folder.path, name), mutation };
};

before(async () => {
  const runs = STRATEGY_NAMES.flatMap((strategy) => {
    return Object.keys(MUTATIONS).map((mutation) => defective(strategy, mutation as Mutation)); // its own keys
  });
  await finishRuns(1, 'none', [single]);
  await finishRuns(2, 'none', [...STRATEGY_NAMES.map(sound), ...runs]);
});
after(() => folder.remove());

const gradientDifference = (dump: string): number =>
  compareStates(readStep(dump, 2, 0), readStep(single.folder, 1, 0)).relative.grad.value;

for (const strategy of STRATEGY_NAMES) {
  test(`the comparison holds without a defect under ${strategy}`, () => {
    assert.ok(gradientDifference(sound(strategy).folder) <= RELATIVE_BOUND);
  });

  for (const [mutation, what] of Object.entries(MUTATIONS)) {
    test(`the comparison fails on ${what} under ${strategy}`, () => {
      // The keys of MUTATIONS.
      const { folder: dump } = defective(strategy, mutation as Mutation);
      assert.throws(() => {
        assert.ok(gradientDifference(dump) <= RELATIVE_BOUND);
      });
    });
  }
}
