import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import * as tf from '../../src/core/tf';
import type { Engine } from '../../src/engine/backend/engine';
import { Parameter } from '../../src/nn/parameter';
import { testEngine } from '../support/wasm-test-engine';

let engine: Engine;
before(async () => {
  engine = await testEngine();
});

test('a clone has its own memory, also if it is made by tf.clone or of a view, as in torch', () => {
  const x = tf.ones([2, 2]);
  const clones = [x.clone(), tf.clone(x), x.reshape([4]).clone()];
  engine.addInto(x, tf.fill([2, 2], 2));
  assert.deepEqual([...x.dataSync()], [3, 3, 3, 3]);
  for (const clone of clones) assert.deepEqual([...clone.dataSync()], [1, 1, 1, 1]);
});

test('a clone has the shape, dtype and values of its tensor, for all dtypes, scalars and tensors without elements', () => {
  const all = [
    tf.scalar(3),
    tf.zeros([0, 3]),
    tf.tensor2d([[16777217, -5]], [1, 2], 'int32'),
    tf.tensor1d([true, false], 'bool'),
    tf.tensor1d(['a', 'b']),
    tf.tensor1d([Number.NaN, Number.POSITIVE_INFINITY]),
  ];
  for (const tensor of all) {
    const clone = tensor.clone();
    assert.deepEqual(
      [clone.shape, clone.dtype, clone.arraySync()],
      [tensor.shape, tensor.dtype, tensor.arraySync()],
    );
  }
  assert.deepEqual(tf.clone([1, 2]).arraySync(), [1, 2]);
});

test('gradients flow through a clone, also gradients of gradients', () => {
  const cube = (x: tf.Tensor): tf.Tensor => tf.sum(tf.mul(x.clone(), tf.mul(x, tf.clone(x))));
  const x = tf.tensor1d([1, 2]);
  assert.deepEqual([...tf.grad(cube)(x).dataSync()], [3, 12]);
  assert.deepEqual(
    [
      ...tf
        .grad((y) => tf.sum(tf.grad(cube)(y)))(x)
        .dataSync(),
    ],
    [6, 12],
  );
});

test('a parameter made of a clone is another parameter, and an assignment to the tensor of a parameter is refused', () => {
  const first = new Parameter(tf.ones([2]));
  assert.throws(() => new Parameter(first.tensor), {
    code: 'CONFIG',
    message: /give a copy \(tensor\.clone\(\)\)/,
  });
  const second = new Parameter(first.tensor.clone());
  engine.addInto(first.tensor, tf.ones([2]));
  assert.deepEqual([...second.tensor.dataSync()], [1, 1]);
  const assign = (): unknown => Reflect.set(first, 'tensor', tf.zeros([2]));
  assert.throws(assign, {
    code: 'CONFIG',
    message: /loadStateDict\(\{ 'name': values \}, \{ strict: false \}\)/,
  });
});
