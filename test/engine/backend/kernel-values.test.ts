import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { assertClose } from '../../support/close';
import { Arena, bfloat16 } from './arena';

describe('kernels on single values', () => {
  const arena = new Arena();

  test('rounding to bfloat16 and float16 is to nearest, ties to even, also for infinities, NaN and subnormals', () => {
    const values = [
      0,
      -0,
      1,
      1.00390625,
      1.01171875,
      65504,
      65519.99,
      65520,
      1e-7,
      5.96e-8,
      2.98e-8,
      3.4e38,
      Infinity,
      -Infinity,
      NaN,
      -3.3,
    ];
    const bf16 = arena.put(values);
    arena.kernels.roundToBfloat16(bf16, values.length);
    assert.deepEqual(arena.take(bf16, values.length), Float32Array.from(values, bfloat16));
    const f16 = arena.put(values);
    arena.kernels.roundToFloat16(f16, values.length);
    const expected = [
      0,
      -0,
      1,
      1.00390625,
      1.01171875,
      65504,
      65504,
      Infinity,
      2 ** -24 * 2,
      2 ** -24,
      0,
      Infinity,
      Infinity,
      -Infinity,
      NaN,
      -3.30078125,
    ];
    assert.deepEqual(arena.take(f16, values.length), Float32Array.from(expected));
  });

  test('exp is within two ulp over its range and gives zero and infinity at the ends', () => {
    const values = Float32Array.from({ length: 4001 }, (_, i) => -87 + (175.7 * i) / 4000);
    const [x, y] = [arena.put(values), arena.put(new Float32Array(values.length))];
    arena.kernels.exp(x, y, values.length);
    arena.take(y, values.length).forEach((actual, i) => {
      const exact = Math.exp(values[i] ?? 0);
      assert.ok(Math.abs(actual - exact) <= 2.5e-7 * exact, `exp(${values[i]}) = ${actual}, not ${exact}`);
    });
    const ends = arena.put([-1000, -104, 88.8, 1000, -Infinity, Infinity, NaN]);
    arena.kernels.exp(ends, ends, 7);
    assert.deepEqual(arena.take(ends, 7), Float32Array.of(0, 0, Infinity, Infinity, 0, Infinity, NaN));
  });

  test('the exact GELU is precise over its range, and 0 or x at its ends', () => {
    const values = Float32Array.from({ length: 2001 }, (_, i) => (i - 1000) / 200);
    const [x, y] = [arena.put(values), arena.put(new Float32Array(values.length))];
    arena.kernels.geluExact(x, y, values.length);
    const results = arena.take(y, values.length);
    // Simpson's rule for the integral of the normal density from 0 to x.
    const density = (t: number): number => Math.exp((-t * t) / 2) / Math.sqrt(2 * Math.PI);
    results.forEach((actual, i) => {
      const end = values[i] ?? 0;
      let sum = density(0) + density(end);
      for (let k = 1; k < 200; k++) sum += (k % 2 === 0 ? 2 : 4) * density((end * k) / 200);
      const exact = end * (0.5 + (sum * end) / 600);
      assert.ok(Math.abs(actual - exact) <= 2e-6, `gelu(${end}) = ${actual}, not ${exact}`);
    });
    const ends = arena.put([-100, 100, 0, -8]);
    arena.kernels.geluExact(ends, ends, 4);
    assert.deepEqual(arena.take(ends, 4).map(Math.abs), Float32Array.of(0, 100, 0, 0));
  });

  test('tanh and log are precise over their range and at its ends', () => {
    const values = Float32Array.from({ length: 4001 }, (_, i) => (i - 2000) / 150);
    const [x, y] = [arena.put(values), arena.put(new Float32Array(values.length))];
    arena.kernels.tanh(x, y, values.length);
    arena.take(y, values.length).forEach((actual, i) => {
      const exact = Math.tanh(values[i] ?? 0);
      assert.ok(
        Math.abs(actual - exact) <= 4e-7 * Math.abs(exact),
        `tanh(${values[i]}) = ${actual}, not ${exact}`,
      );
    });
    const positive = Float32Array.from({ length: 2000 }, (_, i) => 10 ** (i / 27 - 37));
    const [p, q] = [arena.put(positive), arena.put(new Float32Array(2000))];
    arena.kernels.log(p, q, 2000);
    arena.take(q, 2000).forEach((actual, i) => {
      const exact = Math.log(positive[i] ?? 0);
      assert.ok(
        Math.abs(actual - exact) <= 3e-7 * Math.max(1, Math.abs(exact)),
        `log(${positive[i]}) = ${actual}`,
      );
    });
    const ends = arena.put([0, -1, Infinity, NaN, 1e-40, 1]);
    arena.kernels.log(ends, ends, 6);
    assertClose(arena.take(ends, 6).slice(4), [Math.log(1e-40), 0], 1e-6);
    assert.deepEqual(arena.take(ends, 4), Float32Array.of(-Infinity, NaN, Infinity, NaN));
    const far = arena.put([-100, 100, -Infinity, Infinity, NaN]);
    arena.kernels.tanh(far, far, 5);
    assert.deepEqual(arena.take(far, 5), Float32Array.of(-1, 1, -1, 1, NaN));
  });
});
