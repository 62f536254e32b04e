import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { valuesHere } from '../../support/cases';
import { finishSeeds, requireSame } from './random-runs';
import { randomSettings } from './random-settings';

/** All have these seeds in the long run, and 158 more in random.long. */
const SEEDS = valuesHere([0, 1, 2, 3], [0, 1, 3]);

for (const world of valuesHere([2, 3, 4], [1])) {
  describe(`${world} ranks`, () => {
    const finished = finishSeeds(world, SEEDS);
    finished.catch(() => undefined); // each test that awaits it reports its failure
    for (const seed of SEEDS) {
      const { parallel, ...rest } = randomSettings(seed, world);
      test(`random model ${seed} under ${JSON.stringify({ ...parallel, ...rest })} trains as in one process`, async () => {
        const run = (await finished).get(seed);
        assert.ok(run);
        requireSame(run.together, run.alone);
      });
    }
  });
}
