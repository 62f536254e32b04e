import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { SILENT } from '../../src/core/events';
import * as tf from '../../src/core/tf';
import { gradients } from '../../src/engine/autograd/unit';
import { currentDraws } from '../../src/engine/backend/current-engine';
import type { Engine } from '../../src/engine/backend/engine';
import { FUSED } from '../../src/engine/backend/fused/fused-kernel';
import { replaceEngineFunction } from '../../src/engine/backend/tfjs-state';
import * as nn from '../../src/nn/names/nn-names';
import { EXPENSIVE_OPS, kernelsOf } from '../../src/sharding/recompute/apply-activation-checkpointing';
import { checkpointed } from '../../src/sharding/recompute/checkpointed';
import { normals } from '../support/close';
import { testEngine } from '../support/wasm-test-engine';

let engine: Engine;
before(async () => {
  engine = await testEngine();
});

interface Result {
  readonly gradients: readonly string[];
  readonly buffers: readonly string[];
  /** How often a convolution ran. */
  readonly convolutions: number;
}

/** Trains a small network for one step; some of its layers run again in backward. */
function trained(how: 'plain' | 'full' | 'selective'): Result {
  const block = new nn.Sequential([
    new nn.Conv2d(2, 4, 3, { padding: 1 }),
    new nn.BatchNorm2d(4),
    new nn.ReLU(),
    new nn.Dropout2d(0.2),
    new nn.MaxPool2d(2),
    new nn.ConvTranspose2d(4, 2, 2, { stride: 2 }),
    new nn.GroupNorm(1, 2),
  ]);
  const model = new nn.Sequential([
    block,
    new nn.Conv2d(2, 3, 1),
    new nn.AdaptiveAvgPool2d(1),
    new nn.Flatten(),
  ]);
  const keepResultsOf = how === 'selective' ? kernelsOf(EXPENSIVE_OPS) : undefined;
  if (how !== 'plain') checkpointed({ engine, observer: SILENT }, block, { keepResultsOf });
  let convolutions = 0;
  const restore = replaceEngineFunction('runKernel', (run) => (...call: unknown[]) => {
    if (call[0] === FUSED.conv2d) convolutions++;
    return run(...call);
  });
  const x = tf.tensor4d(normals(2 * 2 * 36, 'x'), [2, 2, 6, 6]);
  const forward = (): tf.Tensor => nn.functional.crossEntropy(model.apply(x), tf.tensor1d([0, 2], 'int32'));
  currentDraws().pass = 0; // all runs draw the same numbers
  const pass = gradients(engine, forward);
  pass.backward();
  restore();
  const text = (tensor: tf.Tensor | null): string => tensor?.dataSync().join() ?? 'none';
  const result = {
    gradients: model.parameters().map(({ grad }) => text(grad)),
    buffers: model.buffers().map(({ tensor }) => text(tensor)),
    convolutions,
  };
  model.zeroGrad();
  model.dispose();
  tf.dispose([x, pass.loss]);
  return result;
}

test('layers of images that run again in backward have equal gradients and change their statistics once', () => {
  const plain = trained('plain');
  const full = trained('full');
  assert.deepEqual({ ...full, convolutions: 0 }, { ...plain, convolutions: 0 });
  assert.equal(full.convolutions, plain.convolutions + 1, 'the second forward runs the convolution again');
  const selective = trained('selective');
  assert.deepEqual(selective, plain, "'selective' stores the result of the convolution");
});
