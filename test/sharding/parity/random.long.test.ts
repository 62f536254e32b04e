import assert from 'node:assert/strict';
import { test } from 'node:test';
import { finishSeeds, requireSame } from './random-runs';
import { randomSettings } from './random-settings';

/** The first seeds are those of the slow suite. */
const SEEDS = Array.from({ length: 158 }, (_, i) => 4 + i);

for (const world of [2, 3, 4]) {
  test(`${SEEDS.length} random models under random settings on ${world} ranks train as in one process`, async (t) => {
    const finished = await finishSeeds(world, SEEDS);
    for (const [seed, { together, alone }] of finished) {
      await t.test(`seed ${seed}: ${JSON.stringify(randomSettings(seed, world))}`, () => {
        assert.equal(together.length, world);
        requireSame(together, alone);
      });
    }
  });
}
