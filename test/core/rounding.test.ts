import assert from 'node:assert/strict';
import { test } from 'node:test';
import { seeded } from '../../src/core/random';
import { HALF_FORMATS, roundValues } from '../../src/core/rounding';
import * as tf from '../../src/core/tf';
import { testEngine } from '../support/wasm-test-engine';

/** Every kind of float32: random bits, neighbours of ties, subnormals, infinities, zeros of both signs. */
function samples(): Float32Array {
  const random = seeded(5, 'rounding');
  const bits = Array.from({ length: 20_000 }, () => Math.floor(random.uniform() * 2 ** 32) | 0);
  const usual = Array.from({ length: 20_000 }, () => random.normal() * 10 ** (random.uniform() * 16 - 10));
  const ties = [
    1 + 2 ** -11,
    1 + 3 * 2 ** -11,
    1 + 2 ** -8,
    1 + 3 * 2 ** -8,
    65519.99,
    65520,
    65504,
    2 ** -25,
    3 * 2 ** -25,
  ];
  const special = [
    0,
    -0,
    Number.POSITIVE_INFINITY,
    Number.NEGATIVE_INFINITY,
    2 ** -14,
    2 ** -24,
    2 ** -149,
    3.4e38,
  ];
  const exact = [...new Float32Array(Int32Array.from(bits).buffer)].filter((value) => !Number.isNaN(value));
  return Float32Array.from([...exact, ...usual, ...ties, ...ties.map((tie) => -tie), ...special]);
}

for (const dtype of ['bfloat16', 'float16'] as const) {
  test(`rounding to ${dtype} in plain code gives the same bits as the engine's kernel`, async () => {
    const engine = await testEngine();
    const values = samples();
    const tensor = tf.tensor1d(values);
    engine.round(tensor, dtype);
    const expected = new Int32Array(Float32Array.from(tensor.dataSync()).buffer);
    tensor.dispose();
    roundValues(values, dtype);
    assert.deepEqual(new Int32Array(values.buffer), expected);
  });

  test(`${dtype}: the error is at most the format's unit roundoff, or half of its smallest number`, () => {
    const { unitRoundoff, smallestNormal, smallestSubnormal, largest } = HALF_FORMATS[dtype];
    const values = samples();
    const rounded = values.slice();
    roundValues(rounded, dtype);
    values.forEach((value, i) => {
      const size = Math.abs(value);
      if (size > largest) return;
      const bound = size < smallestNormal ? smallestSubnormal / 2 : size * unitRoundoff;
      assert.ok(Math.abs((rounded[i] ?? Number.NaN) - value) <= bound, `${value} became ${rounded[i]}`);
    });
  });

  test(`${dtype}: NaN stays NaN`, () => {
    const values = Float32Array.of(Number.NaN, -Number.NaN, 1);
    roundValues(values, dtype);
    assert.deepEqual([...values], [Number.NaN, Number.NaN, 1]);
  });
}
