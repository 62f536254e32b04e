import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { parseTrainConfig } from '../../src/config/train-config';
import * as tf from '../../src/core/tf';
import type { Engine } from '../../src/engine/backend/engine';
import { FUSED } from '../../src/engine/backend/fused/fused-kernel';
import { interceptKernels } from '../../src/engine/backend/tfjs-state';
import { buildModel } from '../../src/nn/models/build-model';
import { assertClose } from '../support/close';
import { collectGradients } from '../support/collect-gradients';
import { testEngine } from '../support/wasm-test-engine';

const SIZES = { layers: 2, dim: 12, heads: 3, vocab: 256, seq: 6 } as const;

const MODELS = {
  gpt: { kind: 'gpt', ...SIZES },
  moe: { kind: 'moe', ...SIZES, experts: 2 },
  llama: { kind: 'llama', ...SIZES, heads: 2, kvHeads: 1 },
} as const;

let engine: Engine;
before(async () => {
  engine = await testEngine();
});

/** Loss and gradients of a model, and how often its attention ran as the flash attention kernel. */
function run(model: (typeof MODELS)[keyof typeof MODELS], attention: 'eager' | 'flash') {
  const built = buildModel(parseTrainConfig({ model: { ...model, attention } }));
  const ids = tf.tensor2d([3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8], [2, 6], 'int32');
  const targets = tf.tensor1d([1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9], 'int32');
  let loss = Number.NaN;
  let numFlash = 0;
  const restore = interceptKernels((name) => {
    if (name === FUSED.flashAttention) numFlash++;
    return undefined;
  });
  const gradients = collectGradients(
    engine,
    built,
  )(() => {
    const value = built.apply(ids, targets);
    loss = value.dataSync()[0] ?? Number.NaN;
    return value;
  });
  restore();
  built.dispose();
  tf.dispose([ids, targets]);
  return { loss, gradients, numFlash };
}

for (const [name, model] of Object.entries(MODELS)) {
  test(`${name} with flash attention has the loss and gradients of attention with all weights`, () => {
    const [eager, flash] = [run(model, 'eager'), run(model, 'flash')];
    assert.deepEqual([eager.numFlash, flash.numFlash], [0, SIZES.layers]);
    assertClose([flash.loss], [eager.loss], 1e-5, 'loss');
    for (const [parameter, gradient] of eager.gradients)
      assertClose(flash.gradients.get(parameter) ?? [], gradient ?? [], 1e-5, parameter);
  });
}

test('an unknown kind of attention is refused', () => {
  const config = { model: { ...MODELS.gpt, attention: 'paged' } };
  assert.throws(() => parseTrainConfig(config), { code: 'CONFIG', message: /attention/ });
});
