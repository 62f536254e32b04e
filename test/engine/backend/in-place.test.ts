import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import * as tf from '../../../src/core/tf';
import type { Engine } from '../../../src/engine/backend/engine';
import { assertClose, normals, valuesOf } from '../../support/close';
import { ENGINE_CASES } from '../../support/engines';

const SIZES = [1, 2, 3, 4, 5, 7, 8, 31, 1029];

for (const engineCase of ENGINE_CASES) {
  describe(`updates in place ${engineCase.name}`, () => {
    let engine: Engine;
    before(async () => {
      engine = await engineCase.start();
    });

    test('copyInto, addInto, fill and scale give the expected values for every size', () => {
      for (const n of SIZES) {
        tf.tidy(() => {
          const [a, b] = [tf.tensor1d(normals(n + 2, 'a')), tf.tensor1d(normals(n, 'b'))];
          const expected = valuesOf(a);
          expected.set(valuesOf(b), 1);
          engine.copyInto(a, 1, b);
          assert.deepEqual(valuesOf(a), expected);
          const sum = valuesOf(b).map((v) => v + Math.fround(0.5 * v));
          const c = tf.add(b, 0);
          engine.addInto(c, b, 0.5);
          assert.deepEqual(valuesOf(c), sum);
          engine.scale(c, -2);
          assert.deepEqual(
            valuesOf(c),
            sum.map((v) => v * -2),
          );
          engine.fill(c, 1.5);
          assert.deepEqual(valuesOf(c), new Float32Array(n).fill(1.5));
          const whole = tf.zeros([n], 'int32');
          engine.fill(whole, -3);
          assert.deepEqual([...whole.dataSync()], Array(n).fill(-3));
        });
      }
    });

    test('sumOfSquares sums any part in float64', () => {
      const values = normals(1000, 'squares', 1e3);
      const x = tf.tensor1d(values);
      for (const [offset, length] of [
        [0, 1000],
        [3, 7],
        [999, 1],
        [5, 0],
        [1, 998],
      ] as const) {
        const expected = values.slice(offset, offset + length).reduce((sum, v) => sum + v * v, 0);
        assert.ok(Math.abs(engine.sumOfSquares(x, offset, length) - expected) <= 1e-12 * expected);
      }
      x.dispose();
    });

    test('adamW over several steps equals its definition in float64, with and without a gradient scale', () => {
      for (const gradScale of [undefined, 0.5]) {
        for (const n of [1, 6, 16]) {
          const options = { lr: 0.01, beta1: 0.9, beta2: 0.95, eps: 1e-8, weightDecay: 0.1 };
          const expected = {
            p: [...normals(n, 'p')],
            m: Array<number>(n).fill(0),
            v: Array<number>(n).fill(0),
          };
          const [param, expAvg, expAvgSq] = [tf.tensor1d(expected.p), tf.zeros([n]), tf.zeros([n])];
          for (let step = 1; step <= 3; step++) {
            const g = normals(n, `g${step}`);
            const grad = tf.tensor1d(g);
            engine.adamW({
              param,
              grad,
              expAvg,
              expAvgSq,
              step,
              ...options,
              ...(gradScale === undefined ? {} : { gradScale }),
            });
            grad.dispose();
            for (let i = 0; i < n; i++)
              referenceStep(expected, i, (g[i] ?? 0) * (gradScale ?? 1), step, options);
          }
          assertClose(valuesOf(param), expected.p, 1e-6, 'parameters');
          assertClose(valuesOf(expAvg), expected.m, 1e-6, 'first moments');
          assertClose(valuesOf(expAvgSq), expected.v, 1e-6, 'second moments');
          tf.dispose([param, expAvg, expAvgSq]);
        }
      }
    });

    test('round leaves only the bits of a 16-bit type', () => {
      tf.tidy(() => {
        const [a, b] = [
          tf.tensor1d([1 + 2 ** -8, 1 + 2 ** -7, 3e38, -0.1]),
          tf.tensor1d([1 + 2 ** -11, 65520, -0.1]),
        ];
        engine.round(a, 'bfloat16');
        engine.round(b, 'float16');
        assert.deepEqual([...a.dataSync()], [1, 1 + 2 ** -7, 3.00405527047391e38, -0.10009765625]);
        assert.deepEqual([...b.dataSync()], [1, Number.POSITIVE_INFINITY, -0.0999755859375]);
      });
    });

    test('matmuls and convolutions use the values after an update in place', () => {
      tf.tidy(() => {
        const x = tf.ones([2, 3]);
        const w = tf.ones([3, 4]) as tf.Tensor2D;
        const filter = tf.ones([1, 1, 3, 2]) as tf.Tensor4D;
        const image = tf.ones([1, 2, 2, 3]) as tf.Tensor4D;
        for (let round = 0; round < 2; round++) {
          engine.fill(w, round + 1);
          engine.fill(filter, round + 1);
          assert.deepEqual([...tf.matMul(x, w).dataSync()], Array(8).fill(3 * (round + 1)));
          assert.deepEqual(
            [...tf.conv2d(image, filter, 1, 'valid').dataSync()],
            Array(8).fill(3 * (round + 1)),
          );
        }
      });
    });

    test('sizes that do not fit are an error that shows both sizes', () => {
      tf.tidy(() => {
        const [a, b] = [tf.zeros([4]), tf.zeros([3])];
        assert.throws(
          () => engine.addInto(a, b),
          /addInto needs float32 arrays of equal size, but got float32 \[4\], float32 \[3\]/,
        );
        assert.throws(() => engine.copyInto(a, 2, b), /3 elements at 2 do not fit into 4/);
        assert.throws(
          () => engine.copyInto(a, 0, tf.zeros([2], 'int32')),
          /int32 values cannot be copied into a float32 tensor/,
        );
      });
    });
  });
}

interface Moments {
  readonly p: number[];
  readonly m: number[];
  readonly v: number[];
}

interface AdamWOptions {
  readonly lr: number;
  readonly beta1: number;
  readonly beta2: number;
  readonly eps: number;
  readonly weightDecay: number;
}

/** Source: Loshchilov and Hutter 2019, algorithm 2, as torch.optim.AdamW. */
function referenceStep(
  { p, m, v }: Moments,
  i: number,
  g: number,
  step: number,
  options: AdamWOptions,
): void {
  const { lr, beta1, beta2, eps, weightDecay } = options;
  const mean = beta1 * (m[i] ?? 0) + (1 - beta1) * g;
  const square = beta2 * (v[i] ?? 0) + (1 - beta2) * g * g;
  const denominator = Math.sqrt(square / (1 - beta2 ** step)) + eps;
  p[i] = (p[i] ?? 0) * (1 - lr * weightDecay) - (lr * mean) / (1 - beta1 ** step) / denominator;
  m[i] = mean;
  v[i] = square;
}
