import assert from 'node:assert/strict';
import * as tf from '../../../src/core/tf';

/** Elements per tensor: below, equal to, and not divisible by any world; one chunk and several. */
export const SIZES = [1, 2, 3, 4, 5, 64, 1000, 4099, 20_000, 300_001] as const;
/** More chunks of a slot than fit into two buffers. */
export const LARGE_SIZE = 4_300_007;

/** Indices after which the values repeat. */
export const PERIOD = 13;

/** Small integers that differ by rank and index, exact in every type on the wire. */
export function valueAt(rank: number, index: number): number {
  return (index % PERIOD) + rank * 2 - 3;
}

export function vector(
  length: number,
  at: (index: number) => number,
  dtype: 'float32' | 'int32' = 'float32',
): tf.Tensor1D {
  const values = dtype === 'float32' ? new Float32Array(length) : new Int32Array(length);
  for (let i = 0; i < length; i++) values[i] = at(i);
  return tf.tensor1d(values, dtype);
}

/** Fails at the first element that differs; NaN equals NaN. */
export function expectValues(tensor: tf.Tensor, at: (index: number) => number, what: string): void {
  const values = tensor.dataSync();
  for (let i = 0; i < values.length; i++) {
    if (Object.is(values[i], at(i)) || values[i] === at(i)) continue;
    assert.fail(`${what}: element ${i} of ${values.length} is ${values[i]}, not ${at(i)}`);
  }
}

export function sumOver(world: number, at: (rank: number) => number): number {
  let sum = 0;
  for (let rank = 0; rank < world; rank++) sum += at(rank);
  return sum;
}

const words = new DataView(new ArrayBuffer(4));

/** float32 → nearest bfloat16, ties to even, as a number. */
export function roundToBfloat16(value: number): number {
  words.setFloat32(0, value);
  const bits = words.getUint32(0);
  if (Number.isNaN(value)) return Number.NaN;
  words.setUint32(0, ((bits + 0x7fff + ((bits >>> 16) & 1)) & 0xffff0000) >>> 0);
  return words.getFloat32(0);
}

/** float32 → nearest float16, ties to even, as a number; numbers that are too large become infinity. */
export function roundToFloat16(value: number): number {
  if (!Number.isFinite(value) || value === 0) return value;
  const exponent = Math.max(-14, Math.floor(Math.log2(Math.abs(value))));
  const unit = 2 ** (exponent - 10);
  const scaled = Math.abs(value) / unit;
  const floor = Math.floor(scaled);
  const rest = scaled - floor;
  const up = rest > 0.5 || (rest === 0.5 && floor % 2 === 1);
  const rounded = (floor + (up ? 1 : 0)) * unit;
  return Math.sign(value) * (rounded > 65504 ? Number.POSITIVE_INFINITY : rounded);
}

/** Elements of a tensor; by default all from `offset` on. */
export function piece(tensor: tf.Tensor, offset = 0, length = tensor.size - offset) {
  return { tensor, offset, length };
}
