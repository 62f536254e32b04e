import assert from 'node:assert/strict';
import { seeded } from '../../src/core/random';
import type * as tf from '../../src/core/tf';

/** ‖a − b‖ / ‖b‖, or ‖a‖ if b is zero. */
export function relativeDistance(a: ArrayLike<number>, b: ArrayLike<number>): number {
  assert.equal(a.length, b.length);
  let difference = 0;
  let size = 0;
  for (let i = 0; i < b.length; i++) {
    difference += ((a[i] ?? 0) - (b[i] ?? 0)) ** 2;
    size += (b[i] ?? 0) ** 2;
  }
  return Math.sqrt(difference) / (Math.sqrt(size) || 1);
}

/** Fails when two lists of values differ by more than `bound` (relative norm). */
export function assertClose(
  actual: ArrayLike<number>,
  expected: ArrayLike<number>,
  bound: number,
  what = 'values',
): void {
  const distance = relativeDistance(actual, expected);
  assert.ok(distance <= bound, `${what}: relative distance ${distance.toExponential(2)} > ${bound}`);
}

/** A copy of a tensor's values. */
export function valuesOf(tensor: tf.Tensor): Float32Array {
  return Float32Array.from(tensor.dataSync());
}

/** Seeded normal values. */
export function normals(count: number, label: string | number, scale = 1): Float32Array {
  const random = seeded(7, label);
  return Float32Array.from({ length: count }, () => random.normal() * scale);
}
