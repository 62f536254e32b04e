import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { HALF_FORMATS } from '../../../src/core/rounding';
import {
  measureReduction,
  type ReductionErrorRow,
  reduceOnWire,
  simulateReductionError,
} from '../../../src/sharding/precision/reduction-error';
import { launchRanks } from '../../support/launch-ranks';

const rows = simulateReductionError({
  sizes: [4096],
  worlds: [1, 2, 4, 64],
  distributions: ['normal', 'logNormal'],
});

function row(wanted: Partial<ReductionErrorRow>): ReductionErrorRow {
  const found = rows.find((each) =>
    Object.entries(wanted).every(([key, value]) => Reflect.get(each, key) === value),
  );
  assert.ok(found !== undefined, JSON.stringify(wanted));
  return found;
}

test("the error of every reduction is within its format's bound", () => {
  for (const each of rows) assert.ok(each.relativeError <= each.bound, JSON.stringify(each));
});

test('the bound is at most 16 times the measured error if sums are in float32', () => {
  const plain = rows.filter(
    ({ accumulation, underflowedShare }) => accumulation === 'float32' && underflowedShare === 0,
  );
  assert.ok(plain.length > 20);
  for (const each of plain) assert.ok(each.bound <= 16 * each.relativeError, JSON.stringify(each));
});

/** A rounding of a normal number has an error of at most u: one for the contributions and one for the mean. */
test('sums in float32 have an error below u (1 + √N), and sums in the wire type have more', () => {
  for (const dtype of ['float16', 'bfloat16'] as const) {
    const { unitRoundoff } = HALF_FORMATS[dtype];
    for (const world of [2, 4, 64]) {
      const cases = { dtype, world, scale: 1, distribution: 'normal' } as const;
      const once = row({ ...cases, accumulation: 'float32' });
      assert.ok(once.relativeError < unitRoundoff * (1 + Math.sqrt(world)), JSON.stringify(once));
      const hops = row({ ...cases, accumulation: 'wire' });
      if (world > 2) assert.ok(hops.relativeError > once.relativeError, JSON.stringify([once, hops]));
    }
  }
});

/**
 * float16's u is 2^-11 = 0.049%. A rounding's error is spread evenly up to u of the value, so u/√3 in the mean; two of them one after
 * the other, of contributions and of their mean, are u·√(2/3) = 0.04%, below 0.1% for normal numbers. Below half of the
 * smallest subnormal, 3e-8, the result is zero.
 */
test("float16's error is below 0.1% for gradients down to 1e-3, and 100% for 1e-8; loss scaling helps", () => {
  const of = (scale: number): ReductionErrorRow =>
    row({ dtype: 'float16', accumulation: 'float32', world: 4, scale, distribution: 'normal' });
  assert.ok(of(1).relativeError < 1e-3);
  assert.ok(of(1e-3).relativeError < 1e-3);
  assert.ok(of(1e-6).relativeError > 1e-3);
  // Half of the smallest subnormal is 3 standard deviations: of a normal, 0.3% are larger.
  assert.ok(of(1e-8).underflowedShare > 0.99);
  assert.ok(of(1e-8).relativeError > 0.9);
  const scaled = simulateReductionError({
    dtypes: ['float16'],
    sizes: [4096],
    worlds: [4],
    scales: [1e-6, 1e-8],
    lossScales: [65536],
  });
  for (const each of scaled.filter(({ accumulation, scale }) => accumulation === 'float32' && scale === 1e-6))
    assert.ok(each.relativeError < 1e-3, JSON.stringify(each));
});

test('bfloat16 loses no small gradient, and its error is above 0.1% at every size', () => {
  for (const each of rows.filter(({ dtype }) => dtype === 'bfloat16')) {
    assert.equal(each.underflowedShare, 0);
    if (each.accumulation === 'float32') assert.ok(each.relativeError > 1e-3, JSON.stringify(each));
  }
});

test('an overflow is counted and makes the error infinite', () => {
  const contributions = [Float32Array.of(1, 70_000, 3), Float32Array.of(1, 1, 60_000)];
  const measured = measureReduction(
    reduceOnWire(contributions, 'float16', 'float32'),
    contributions,
    'float16',
    'float32',
  );
  assert.equal(measured.overflowed, 1);
  assert.equal(measured.relativeError, Number.POSITIVE_INFINITY);
  // 60,000 + 60,000 is too large for a ring that adds in float16, but not for a sum in float32.
  const large = [Float32Array.of(60_000), Float32Array.of(60_000)];
  assert.deepEqual([...reduceOnWire(large, 'float16', 'wire')], [Number.POSITIVE_INFINITY]);
  assert.deepEqual([...reduceOnWire(large, 'float16', 'float32')], [60_000]);
});

test('real ranks give the same errors as the simulation, to the bit', async () => {
  const options = {
    worlds: [2, 3],
    sizes: [1000, 40_000],
    scales: [1, 1e-6],
    distributions: ['logNormal'],
  } as const;
  const script = join(__dirname, 'reduction-error-rank.js');
  const [measured, , third] = await launchRanks<ReductionErrorRow[]>({
    script,
    world: 3,
    args: { blas: 'none', options },
  });
  const expected = simulateReductionError(options).filter(({ accumulation }) => accumulation === 'float32');
  assert.deepEqual(measured, expected);
  assert.deepEqual(
    third,
    expected.filter(({ world }) => world === 3),
  );
});
