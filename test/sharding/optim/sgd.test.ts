import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import * as tf from '../../../src/core/tf';
import type { Engine } from '../../../src/engine/backend/engine';
import { Parameter } from '../../../src/nn/parameter';
import { SGD, type SgdOptions } from '../../../src/sharding/optim/sgd';
import { normals, valuesOf } from '../../support/close';
import { testEngine } from '../../support/wasm-test-engine';

let engine: Engine;
before(async () => {
  engine = await testEngine();
});

/** torch.optim.SGD of one element, in float64. */
function expectedSgd(start: number, grads: readonly number[], options: SgdOptions, scale: number): number {
  const { lr = 1e-3, momentum = 0, nesterov = false, weightDecay = 0 } = options;
  let p = start;
  let buffer: number | undefined;
  for (const raw of grads) {
    let g = raw * scale + weightDecay * p;
    if (momentum !== 0) {
      buffer = buffer === undefined ? g : momentum * buffer + g;
      g = nesterov ? g + momentum * buffer : buffer;
    }
    p -= lr * g;
  }
  return p;
}

const CASES: Record<string, SgdOptions> = {
  plain: { lr: 0.1 },
  'with decay': { lr: 0.1, weightDecay: 0.2 },
  'with momentum': { lr: 0.1, momentum: 0.9, weightDecay: 0.01 },
  'with Nesterov momentum': { lr: 0.1, momentum: 0.9, nesterov: true, weightDecay: 0.01 },
};

for (const [name, options] of Object.entries(CASES)) {
  test(`SGD's steps equal torch's, ${name}`, () => {
    const size = 37;
    const start = normals(size, 'start');
    const grads = [1, 2, 3, 4].map((t) => normals(size, `grad ${t}`));
    const parameter = new Parameter(tf.tensor1d(start));
    const optimizer = new SGD(engine, { states: () => [parameter.state] }, options);
    for (const grad of grads) {
      parameter.grad = tf.tensor1d(grad);
      optimizer.step(0.5);
      optimizer.zeroGrad();
    }
    valuesOf(parameter.tensor).forEach((value, i) => {
      const expected = expectedSgd(
        start[i] ?? 0,
        grads.map((grad) => grad[i] ?? 0),
        options,
        0.5,
      );
      assert.ok(Math.abs(value - expected) < 2e-6, `${value}, expected ${expected}`);
    });
    assert.deepEqual(optimizer.stateNames, options.momentum === undefined ? [] : ['momentum_buffer']);
    optimizer.dispose();
    parameter.tensor.dispose();
  });
}

test('Nesterov without momentum is an error', () => {
  assert.throws(() => new SGD(engine, { states: () => [] }, { nesterov: true }), {
    code: 'CONFIG',
    message: /nesterov needs a momentum/,
  });
});
