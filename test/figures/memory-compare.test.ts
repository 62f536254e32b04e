import assert from 'node:assert/strict';
import { test } from 'node:test';
import { byteScale } from '../../src/figures/format';
import { type ComparedCase, comparisonFinding, comparisonQuantities } from '../../src/figures/memory-compare';
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
    comparisonFinding(cases, SCALE),
    '"offloaded" holds no state on the device; the peaks differ by 4.0×',
  );
  assert.equal(comparisonQuantities(cases).stateRatio, undefined);
  assert.match(comparisonFinding([caseOf('a', 0, 1), caseOf('b', 0, 1)], SCALE), /^All runs hold 0 MB/);
});
