import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import * as tf from '@tensorflow/tfjs';
import { type OptimizerConfig, optimizerSchema } from '../../../src/config/settings/optimizer';
import type { Engine } from '../../../src/engine/backend/engine';
import { Parameter } from '../../../src/nn/parameter';
import { createOptimizer } from '../../../src/sharding/optim/create-optimizer';
import { normals, valuesOf } from '../../support/close';
import { testEngine } from '../../support/wasm-test-engine';

const SIZE = 5000;
const CASES: readonly Partial<OptimizerConfig>[] = [
  { kind: 'adamW', weightDecay: 0.1 },
  { kind: 'adamW8bit' },
  { kind: 'sgd', momentum: 0.9, nesterov: true, weightDecay: 0.1 },
  { kind: 'adamW', delayedUpdate: true },
];

let engine: Engine;
before(async () => {
  engine = await testEngine();
});

/** The parameter after three steps with gradients multiplied by a sign. */
function trained(settings: Partial<OptimizerConfig>, sign: 1 | -1, onHost: boolean): Float32Array {
  const parameter = new Parameter(tf.tensor1d(normals(SIZE, 'start')));
  const offload = { optimizer: onHost, parameters: false, activations: false };
  const model = { states: () => [parameter.state] };
  const optimizer = createOptimizer(engine, model, optimizerSchema.parse(settings), offload);
  for (const seed of ['a', 'b', 'c']) {
    parameter.grad = tf.tensor1d(normals(SIZE, seed).map((value) => sign * value));
    optimizer.step(0.5);
    optimizer.zeroGrad();
  }
  const values = valuesOf(parameter.tensor);
  optimizer.dispose();
  parameter.tensor.dispose();
  return values;
}

// As torch.optim's maximize, which first negates gradients.
for (const settings of CASES) {
  for (const onHost of [false, true]) {
    const where = onHost ? 'on the host' : 'on the device';
    test(`maximize of ${JSON.stringify(settings)} ${where} equals a step by the negative gradient`, () => {
      assert.deepEqual(
        trained({ ...settings, maximize: true }, 1, onHost),
        trained({ ...settings, maximize: false }, -1, onHost),
      );
    });
  }
}
