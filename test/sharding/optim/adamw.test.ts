import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import * as tf from '../../../src/core/tf';
import type { Engine } from '../../../src/engine/backend/engine';
import { Parameter } from '../../../src/nn/parameter';
import { stateBuffers } from '../../../src/nn/state-values';
import { AdamW, type AdamWOptions } from '../../../src/sharding/optim/adamw';
import { clipGradNorm } from '../../../src/sharding/optim/clip-grad-norm';
import { testEngine } from '../../support/wasm-test-engine';

let engine: Engine;
before(async () => {
  engine = await testEngine();
});

/** torch.optim.AdamW of one element, in float64. */
function expectedAdamW(
  start: number,
  grads: readonly number[],
  options: Omit<Required<AdamWOptions>, 'fused'>,
): number {
  const { lr, eps, weightDecay } = options;
  const [beta1, beta2] = options.betas;
  let [p, m, v] = [start, 0, 0];
  grads.forEach((g, i) => {
    p *= 1 - lr * weightDecay;
    m = beta1 * m + (1 - beta1) * g;
    v = beta2 * v + (1 - beta2) * g * g;
    p -= ((lr / (1 - beta1 ** (i + 1))) * m) / (Math.sqrt(v) / Math.sqrt(1 - beta2 ** (i + 1)) + eps);
  });
  return p;
}

test("AdamW's steps equal torch's, with decoupled decay and every option", () => {
  const options = {
    lr: 0.1,
    betas: [0.8, 0.95],
    eps: 1e-3,
    weightDecay: 0.2,
    amsgrad: false,
    maximize: false,
  } as const;
  const parameter = new Parameter(tf.tensor([1, -2, 3]));
  const frozen = new Parameter(tf.tensor([9]), { requiresGrad: false });
  const model = { states: () => stateBuffers([parameter, frozen]) };
  const optimizer = new AdamW(engine, model, options);
  const grads = [
    [1, 0.5, 0],
    [-2, 0.5, 0],
    [3, 0.1, 0],
  ];
  for (const grad of grads) {
    parameter.grad = tf.tensor(grad);
    optimizer.step();
    optimizer.zeroGrad();
  }
  [...parameter.tensor.dataSync()].forEach((value, i) => {
    const expected = expectedAdamW(
      [1, -2, 3][i] ?? 0,
      grads.map((grad) => grad[i] ?? 0),
      options,
    );
    assert.ok(Math.abs(value - expected) < 1e-6, `${value}, expected ${expected}`);
  });
  assert.deepEqual([...frozen.tensor.dataSync()], [9]);
  optimizer.dispose();
  for (const each of [parameter, frozen]) each.tensor.dispose();
});

test('a buffer without a gradient does not change', () => {
  const parameter = new Parameter(tf.tensor([1]));
  const optimizer = new AdamW(engine, { states: () => [parameter.state] }, { weightDecay: 0.5 });
  optimizer.step();
  assert.deepEqual([...parameter.tensor.dataSync()], [1]);
  optimizer.dispose();
  parameter.tensor.dispose();
});

test('the norm is over all gradients together, and the factor never exceeds 1', () => {
  const parameters = [
    new Parameter(tf.zeros([2])),
    new Parameter(tf.zeros([1])),
    new Parameter(tf.zeros([4])),
  ];
  const model = { states: () => stateBuffers(parameters) };
  const [a, b] = parameters;
  assert.ok(a && b);
  a.grad = tf.tensor([3, 0]);
  b.grad = tf.tensor([4]);
  const { norm, scale } = clipGradNorm(engine, model, 1);
  assert.equal(norm, 5);
  assert.ok(Math.abs(scale - 0.2) < 1e-6);
  assert.equal(clipGradNorm(engine, model, 10).scale, 1);
  assert.equal(clipGradNorm(engine, model, null).scale, 1);
  for (const state of model.states()) state.zeroGrad();
  for (const parameter of parameters) parameter.tensor.dispose();
});
