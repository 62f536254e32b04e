import assert from 'node:assert/strict';
import { test } from 'node:test';
import { dryRun } from '../../src/plan/dry-run/dry-run';
import { ComposedPeaks } from '../../src/plan/pieces/composed-peaks';
import { NARROW, randomCandidates } from './random-candidates';

test("200 random candidates' composed peaks equal their whole dry runs to the byte, cause by cause", (context) => {
  const peaks = new ComposedPeaks();
  const candidates = randomCandidates(NARROW, 200, 5);
  const composed = candidates.filter(({ config, world }) => {
    const peak = peaks.peak(config, world);
    const { held, heldBytes } = dryRun(config, { world, curve: false }).peak;
    assert.equal(peak.bytes, heldBytes, JSON.stringify({ config, world }));
    assert.deepEqual(peak.byCause, held, JSON.stringify({ config, world }));
    return peak.composed;
  });
  context.diagnostic(`${composed.length} of 200 composed of ${peaks.numRuns} short dry runs`);
  assert.ok(composed.length > 150);
});
