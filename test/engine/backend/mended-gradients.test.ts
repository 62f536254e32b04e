import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { SILENT } from '../../../src/core/events';
import * as tf from '../../../src/core/tf';
import { gradients, runUnit, type UnitHooks } from '../../../src/engine/autograd/unit';
import type { Engine } from '../../../src/engine/backend/engine';
import { layerNorm } from '../../../src/engine/backend/ops';
import { valuesOf } from '../../support/close';
import { testEngine } from '../../support/wasm-test-engine';

let engine: Engine;
before(async () => {
  engine = await testEngine();
});

for (const axis of [0, 1, 2, [0, 2], [0, 1, 2]]) {
  for (const keepDims of [false, true]) {
    test(`gradients of sum and mean over ${axis}${keepDims ? ' with keepDims' : ''} repeat the result's gradient`, () => {
      const x = tf.randomNormal([2, 3, 4], 0, 1, 'float32', 1);
      const weights = tf.randomNormal(tf.sum(x, axis, true).shape, 0, 1, 'float32', 2);
      const weighted = (y: tf.Tensor) => tf.sum(tf.mul(tf.reshape(y, weights.shape), weights)) as tf.Scalar;
      const spread = tf.add(weights, tf.zerosLike(x));
      const bySum = tf.grad((v: tf.Tensor) => weighted(tf.sum(v, axis, keepDims)))(x);
      const byMean = tf.grad((v: tf.Tensor) => weighted(tf.mean(v, axis, keepDims)))(x);
      assert.deepEqual(valuesOf(bySum), valuesOf(spread));
      assert.deepEqual(valuesOf(byMean), valuesOf(tf.div(spread, x.size / weights.size)));
    });
  }
}

test("a fused kernel's gradient function gets gradients only for the outputs that it reads", () => {
  const [rows, width] = [64, 8];
  const x = tf.randomNormal([rows, width], 0, 1, 'float32', 1);
  const [weight, bias] = [tf.ones([width]), tf.zeros([width])];
  let numGradients = 0;
  const hooks: UnitHooks = {
    preForward() {},
    postForward() {},
    preBackward() {},
    postBackward(found) {
      numGradients = found.filter((gradient) => gradient !== null).length;
      for (const gradient of found) gradient?.dispose();
    },
  };
  const unit = { hooks, parameters: () => [x], module: 'norm' };
  const pass = gradients(engine, () => tf.mean(runUnit(engine, unit, () => layerNorm(x, weight, bias), [])));
  const sizes: number[] = [];
  engine.observe({ ...SILENT, allocated: (_buffer, bytes) => void sizes.push(bytes) });
  sizes.length = 0;
  pass.backward();
  assert.equal(numGradients, 1);
  // Each row's mean and deviation are an output of the kernel.
  assert.ok(!sizes.includes(4 * 2 * rows), String(sizes));
});
