import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { alias } from '../../../src/core/clone';
import * as tf from '../../../src/core/tf';
import type { Engine } from '../../../src/engine/backend/engine';
import { assertClose, normals } from '../../support/close';
import { onBothBackends } from '../../support/cpu-reference';
import { ENGINE_CASES } from '../../support/engines';

const random = (...shape: number[]): tf.Tensor =>
  tf.tensor(
    normals(
      shape.reduce((a, b) => a * b, 1),
      'x',
    ),
    shape,
  );
const counted = (...shape: number[]): tf.Tensor =>
  tf.reshape(
    tf.range(
      0,
      shape.reduce((a, b) => a * b, 1),
      1,
      'int32',
    ),
    shape,
  );

const CASES: Readonly<Record<string, () => readonly tf.Tensor[]>> = {
  'slices of every rank': () => [
    tf.slice(random(9), 2, 5),
    tf.slice(random(4, 5), [1, 0], [2, 5]),
    tf.slice(random(4, 5), [1, 2], [3, 2]),
    tf.slice(random(3, 4, 5), [1, 0, 2], [2, 3, 2]),
    tf.slice(counted(2, 3, 4, 5), [1, 1, 0, 0], [1, 2, 4, 5]),
    tf.slice(random(2, 2, 2, 2, 3), [0, 1, 0, 1, 1], [2, 1, 2, 1, 2]),
    tf.slice(random(3, 3), [1, 1], [0, 2]),
  ],
  'splits and unstacked parts': () => [
    ...tf.split(random(4, 6), 3, 1),
    ...tf.split(random(4, 6), [1, 3], 0),
    ...tf.split(random(2, 3, 4), [1, 3], -1),
    ...tf.unstack(random(3, 4, 2)),
    ...tf.unstack(random(3, 4, 2), 1),
    ...tf.unstack(counted(3, 4), -1),
  ],
  'transposes of every kind': () => [
    tf.transpose(random(5, 7)),
    tf.transpose(random(8, 4)),
    tf.transpose(random(3, 5, 6), [0, 2, 1]),
    tf.transpose(random(3, 5, 6), [2, 0, 1]),
    tf.transpose(random(3, 5, 6), [1, 0, 2]),
    tf.transpose(random(2, 3, 4, 5), [3, 1, 0, 2]),
    tf.transpose(random(2, 3, 3, 4, 5), [2, 0, 3, 1, 4]),
    tf.transpose(counted(4, 1, 3), [2, 1, 0]),
    tf.transpose(random(1, 4, 1), [1, 0, 2]),
    tf.transpose(random(2, 3, 2, 3, 2, 2), [5, 3, 1, 4, 2, 0]),
    tf.transpose(tf.cast(counted(3, 4), 'bool')),
    tf.transpose(random(0, 3)),
    tf.transpose(random(2, 3, 2, 4), [1, 3, 0, 2]),
  ],
  'sums over any axes': () => [
    tf.sum(random(5, 7), 0),
    tf.sum(random(5, 7), 1),
    tf.sum(random(5, 7)),
    tf.sum(random(5, 7), 0, true),
    tf.sum(random(3, 4, 5), [0, 1]),
    tf.sum(random(3, 4, 5), [1, 0], true),
    tf.sum(random(3, 4, 5), [0, 2]),
    tf.sum(counted(3, 4), 0),
    tf.sum(random(0, 3), 0),
    tf.sum(random(4), []),
  ],
  'casts, clones and exponentials': () => [
    tf.cast(random(5), 'int32'),
    tf.cast(random(5), 'float32'),
    tf.cast(counted(5), 'bool'),
    alias(random(5)),
    tf.exp(random(3, 5)),
    tf.exp(counted(4)),
    tf.softmax(random(3, 5)),
    tf.logSoftmax(random(3, 5)),
  ],
  'elementary functions and powers': () => [
    tf.tanh(random(3, 5)),
    tf.log(tf.abs(random(7))),
    tf.sqrt(tf.abs(random(7))),
    tf.rsqrt(tf.abs(random(7))),
    tf.pow(random(3, 5), 3),
    tf.pow(random(3, 5), tf.scalar(2)),
    tf.pow(tf.abs(random(5)), 0.5),
    tf.pow(random(3), tf.tensor2d([[2]])),
    tf.pow(counted(4), tf.scalar(2, 'int32')),
    tf.pow(tf.abs(random(4)), tf.tensor1d([1, 2, 3, -1])),
  ],
  'gathered parts': () => [
    tf.gather(random(5, 3), tf.tensor1d([4, 0, 0], 'int32')),
    tf.gather(random(5, 3, 2), tf.tensor2d([4, 0, 0, 2], [2, 2], 'int32')),
    tf.gather(counted(5), tf.tensor1d([4, 1], 'int32')),
    tf.gather(random(5, 3), tf.tensor1d([2, 1], 'int32'), 1),
    tf.gather(random(2, 3, 4), tf.tensor2d([0, 2, 1, 1], [2, 2], 'int32'), 1, 1),
    tf.gather(random(6, 5), tf.tensor2d(new Array(30).fill(4), [6, 5], 'int32'), 1, 1),
    tf.gather(random(2, 3, 4), tf.tensor2d([0, 3, 1, 1], [2, 2], 'int32'), -1, 1),
    tf.gather(counted(2, 3, 4), tf.tensor3d([0, 2, 1, 1, 3, 0], [2, 3, 1], 'int32'), 2, 2),
  ],
  'sums of segments and the gradient of gather': () => [
    tf.unsortedSegmentSum(random(5, 3), tf.tensor1d([2, 0, 2, 1, 0], 'int32'), 4),
    tf.unsortedSegmentSum(random(5), tf.tensor1d([2, 0, 2, 1, 0], 'int32'), 3),
    tf.grad((table) => tf.sum(tf.square(tf.gather(table, tf.tensor2d([1, 0, 1, 1], [2, 2], 'int32')))))(
      random(4, 3),
    ),
    tf.grad((table) => tf.sum(tf.square(tf.gather(table, tf.tensor1d([2, 0], 'int32'), 1))))(random(4, 3)),
  ],
};

for (const engineCase of ENGINE_CASES) {
  describe(`mended kernels ${engineCase.name}`, () => {
    let engine: Engine;
    before(async () => {
      engine = await engineCase.start();
    });

    for (const [name, work] of Object.entries(CASES)) {
      test(`${name} equal tfjs's JavaScript backend`, async () => {
        const held = engine.memory.bytes;
        const { expected, actual } = await onBothBackends(work);
        actual.forEach((values, i) => {
          assertClose(values, expected[i] ?? [], 1e-5, `result ${i}`);
        });
        assert.equal(engine.memory.bytes, held);
      });
    }

    test('an index out of range is still an error', () => {
      tf.tidy(() => {
        assert.throws(
          () => tf.gather(random(3, 2), tf.tensor1d([0, 3], 'int32')),
          /element 1 of indices is 3, but indices of axis 0 of x float32 \[3,2\] are 0 to 2/,
        );
      });
    });

    test("kernels on strings are tfjs's own", () => {
      tf.tidy(() => {
        const words = tf.tensor2d([
          ['a', 'b'],
          ['c', 'd'],
        ]);
        assert.deepEqual(tf.slice(words, [1, 0], [1, 2]).arraySync(), [['c', 'd']]);
        assert.deepEqual(alias(words).arraySync(), [
          ['a', 'b'],
          ['c', 'd'],
        ]);
      });
    });
  });
}
