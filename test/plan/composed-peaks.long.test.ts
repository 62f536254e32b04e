import assert from 'node:assert/strict';
import { test } from 'node:test';
import { dryRun } from '../../src/plan/dry-run/dry-run';
import { ComposedPeaks } from '../../src/plan/pieces/composed-peaks';
import { randomCandidates, WIDE } from './random-candidates';

for (const seed of [1, 2, 3]) {
  test(`seed ${seed}: 150 candidates of every kind have the peaks of their whole dry runs`, () => {
    const peaks = new ComposedPeaks();
    for (const { config, world } of randomCandidates(WIDE, 150, seed)) {
      const { heldBytes } = dryRun(config, { world, curve: false }).peak;
      assert.equal(peaks.peak(config, world).bytes, heldBytes, JSON.stringify({ config, world }));
    }
  });
}
