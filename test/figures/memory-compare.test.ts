import assert from 'node:assert/strict';
import { test } from 'node:test';
import { byteScale } from '../../src/figures/format';
import type { ComparedCase } from '../../src/figures/memory-case';
import { comparisonFinding, comparisonQuantities } from '../../src/figures/memory-words';
import { noBytes } from '../../src/ledger/record';

const SCALE = byteScale(1e6);

function caseOf(name: string, states: number, peak: number): ComparedCase {
  const bytes = { ...noBytes(), 'param.full': peak };
  return {
    name,
    rank: 0,
    predicted: null,
    states: { ...noBytes(), optimizer: states },
    peak: bytes,
    logicalPeak: bytes,
    residual: null,
  };
}

test('if a run has no state on the device, the finding says so and compares only the peaks', () => {
  const cases = [caseOf('whole', 2e6, 4e6), caseOf('offloaded', 0, 1e6)] as const;
  assert.equal(
    comparisonFinding(cases, SCALE)[0],
    '"offloaded" holds no state on the device; the peaks differ by 4.0×',
  );
  assert.equal(comparisonQuantities(cases).stateRatio, undefined);
  assert.match(
    String(comparisonFinding([caseOf('a', 0, 1), caseOf('b', 0, 1)], SCALE)),
    /^All runs hold 0 MB/,
  );
});

test('if all states are equal, the finding compares the peaks', () => {
  const cases = [caseOf('a', 2e6, 1e6), caseOf('b', 2e6, 3e6), caseOf('c', 2e6, 2e6)] as const;
  assert.equal(
    comparisonFinding(cases, SCALE)[0],
    'All runs hold 2.0 MB of model states; the peak of "b" is 3.0× as high',
  );
  assert.equal(comparisonQuantities(cases).peakRatio?.value, 3);
});
