import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import fc from 'fast-check';
import * as tf from '../../../src/core/tf';
import type { Engine } from '../../../src/engine/backend/engine';
import { assertClose, normals } from '../../support/close';
import { onBothBackends } from '../../support/cpu-reference';
import { ENGINE_CASES } from '../../support/engines';

const random = (shape: readonly number[], label: string): tf.Tensor =>
  tf.tensor(
    normals(
      shape.reduce((a, b) => a * b, 1),
      label,
    ),
    [...shape],
  );

/** tfjs's JavaScript matmul broadcasts only a batch of one, so both operands are repeated to the whole batch first. */
function repeatedFirst(a: tf.Tensor, b: tf.Tensor, transposeA: boolean, transposeB: boolean): tf.Tensor {
  const batch = tf.broadcast_util.assertAndGetBroadcastShape(a.shape.slice(0, -2), b.shape.slice(0, -2));
  const [left, right] = [a, b].map((x) => tf.broadcastTo(x, [...batch, ...x.shape.slice(-2)])) as [
    tf.Tensor,
    tf.Tensor,
  ];
  return tf.matMul(left, right, transposeA, transposeB);
}

const flip = (shape: readonly number[], isFlipped: boolean): number[] =>
  isFlipped ? [...shape.slice(0, -2), ...shape.slice(-2).reverse()] : [...shape];

// Batches of the left and right operand.
const BATCHES: readonly (readonly [readonly number[], readonly number[]])[] = [
  [[], []],
  [[3], [3]],
  [[3], []],
  [[], [3]],
  [
    [2, 3],
    [2, 3],
  ],
  [[2, 1], [3]],
  [
    [2, 1],
    [1, 3],
  ],
  [[1], [4]],
];

const ACTIVATIONS = ['linear', 'relu', 'relu6', 'elu', 'sigmoid', 'leakyrelu', 'prelu'] as const;

for (const engineCase of ENGINE_CASES) {
  describe(`matmuls ${engineCase.name}`, () => {
    let engine: Engine;
    before(async () => {
      engine = await engineCase.start();
    });

    for (const [left, right] of BATCHES) {
      test(`[${[...left, 5, 7]}] times [${[...right, 7, 3]}] equals tfjs's JavaScript backend for all transposes`, async () => {
        for (const transposeA of [false, true]) {
          for (const transposeB of [false, true]) {
            const { expected, actual } = await onBothBackends((backend) => {
              const a = random(flip([...left, 5, 7], transposeA), 'a');
              const b = random(flip([...right, 7, 3], transposeB), 'b');
              return [
                backend === 'cpu'
                  ? repeatedFirst(a, b, transposeA, transposeB)
                  : tf.matMul(a, b, transposeA, transposeB),
              ];
            });
            assertClose(actual[0] ?? [], expected[0] ?? [], 1e-6);
          }
        }
      });
    }

    test('a matmul of any sizes, also of zero, equals a plain sum', () => {
      const size = fc.integer({ min: 0, max: 9 });
      fc.assert(
        fc.property(size, size, size, fc.boolean(), fc.boolean(), (m, k, n, ta, tb) => {
          const held = engine.memory.bytes;
          tf.tidy(() => {
            const [a, b] = [normals(m * k, 'a'), normals(k * n, 'b')];
            const product = tf.matMul(
              tf.tensor(a, ta ? [k, m] : [m, k]),
              tf.tensor(b, tb ? [n, k] : [k, n]),
              ta,
              tb,
            );
            const expected = Array.from({ length: m * n }, (_, at) => {
              const [i, j] = [Math.floor(at / n), at % n];
              let sum = 0;
              for (let c = 0; c < k; c++)
                sum += (a[ta ? c * m + i : i * k + c] ?? 0) * (b[tb ? j * k + c : c * n + j] ?? 0);
              return sum;
            });
            assert.deepEqual(product.shape, [m, n]);
            assertClose(product.dataSync(), expected, 1e-5);
          });
          assert.equal(engine.memory.bytes, held);
        }),
        { seed: 11, numRuns: 150 },
      );
    });

    for (const activation of ACTIVATIONS) {
      test(`fused.matMul with ${activation} equals matmul, bias and activation one after the other`, () => {
        tf.tidy(() => {
          const [a, b] = [random([5, 7], 'a') as tf.Tensor2D, random([3, 7], 'b') as tf.Tensor2D];
          const alpha = tf.tensor1d([0.1, 0.2, 0.3]);
          for (const bias of [undefined, random([3], 'bias')]) {
            const product = tf.matMul(a, b, false, true);
            const sum = bias === undefined ? product : tf.add(product, bias);
            const plain = {
              linear: () => sum,
              relu: () => tf.relu(sum),
              relu6: () => tf.relu6(sum),
              elu: () => tf.elu(sum),
              sigmoid: () => tf.sigmoid(sum),
              leakyrelu: () => tf.leakyRelu(sum, 0.2),
              prelu: () => tf.prelu(sum, alpha),
            }[activation]();
            const fused = tf.fused.matMul({
              a,
              b,
              transposeB: true,
              activation,
              preluActivationWeights: alpha,
              leakyreluAlpha: 0.2,
              ...(bias === undefined ? {} : { bias }),
            });
            assertClose(
              fused.dataSync(),
              plain.dataSync(),
              1e-6,
              `with ${bias === undefined ? 'no' : 'a'} bias`,
            );
          }
        });
      });
    }

    test("gradients of matmuls and of a dense layer equal the JavaScript backend's", async () => {
      const { expected, actual } = await onBothBackends(() => {
        const inputs = [random([4, 5, 6], 'a'), random([4, 6, 3], 'b'), random([3, 5], 'c')];
        return tf.grads((a, b, c) => {
          const product = tf.matMul(a as tf.Tensor, b as tf.Tensor);
          const flat = tf.reshape(product, [20, 3]) as tf.Tensor2D;
          return tf.sum(
            tf.square(
              tf.fused.matMul({ a: flat, b: c as tf.Tensor2D, bias: tf.ones([5]), activation: 'relu' }),
            ),
          );
        })(inputs);
      });
      actual.forEach((values, i) => {
        assertClose(values, expected[i] ?? [], 1e-5, `gradient ${i}`);
      });
    });

    test('unequal inner sizes are an error that shows both shapes', () => {
      tf.tidy(() => {
        assert.throws(
          () =>
            tf
              .engine()
              .runKernel(
                'BatchMatMul',
                { a: tf.ones([2, 3]), b: tf.ones([2, 3]) },
                { transposeA: false, transposeB: false },
              ),
          /matMul of float32 \[2,3\] and float32 \[2,3\]: .*inner sizes \(3 and 2\) must be equal/,
        );
      });
    });
  });
}
