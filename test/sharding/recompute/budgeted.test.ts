import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { SILENT } from '../../../src/core/events';
import * as tf from '../../../src/core/tf';
import { gradients } from '../../../src/engine/autograd/unit';
import type { Engine } from '../../../src/engine/backend/engine';
import { FUSED } from '../../../src/engine/backend/fused/fused-kernel';
import { DDP } from '../../../src/sharding/ddp/distributed-data-parallel';
import {
  applyActivationCheckpointing,
  layerFlopsOf,
} from '../../../src/sharding/recompute/apply-activation-checkpointing';
import { soloGroup } from '../../support/solo-group';
import { testEngine } from '../../support/wasm-test-engine';
import { Chain } from '../chain-model';

let engine: Engine;
before(async () => {
  engine = await testEngine();
});

test('an interrupted first forward does not affect the choice of layers', () => {
  const choices = [false, true].map((isBroken) => {
    const model = new Chain();
    const context = { engine, observer: SILENT, group: soloGroup(engine) };
    // Each layer saves its input and its result, 3 numbers each; the budget is that of three inputs.
    for (const layer of model.layers) layer.wrap((inputs, next) => tf.tanh(next(...inputs) as tf.Tensor));
    const applied = applyActivationCheckpointing(context, model, { budgetBytes: 36 }, false);
    let breaks = isBroken;
    model.last.wrap((inputs, next) => {
      if (breaks) throw new Error('broken off');
      return next(...inputs);
    });
    new DDP(model, context);
    const x = tf.tensor([[0.1, -0.2, 0.3]]);
    const run = (): void => {
      const pass = gradients(engine, () => model.apply(x));
      pass.dispose();
      pass.loss.dispose();
    };
    if (isBroken) assert.throws(run, /broken off/);
    breaks = false;
    run();
    tf.dispose(x);
    model.dispose();
    return applied.choice;
  });
  assert.ok((choices[0]?.recomputedFlops ?? 0) > 0);
  assert.deepEqual(choices[1], choices[0]);
});

test('a matmul costs the same whichever operands are transposed', () => {
  for (const [transposeA, transposeB] of [
    [false, false],
    [false, true],
    [true, false],
    [true, true],
  ]) {
    // b's outer length equals a's rows, so that lengths alone do not show which axis is summed over.
    const a = tf.zeros(transposeA ? [2, 5, 3] : [2, 3, 5]);
    const b = tf.zeros(transposeB ? [2, 3, 5] : [2, 5, 3]);
    const product = tf.matMul(a, b, transposeA, transposeB);
    const flops = layerFlopsOf({ kernelName: 'BatchMatMul', inputs: { a, b }, outputs: [product] });
    assert.equal(flops, 2 * 2 * 3 * 3 * 5);
    tf.dispose([a, b, product]);
  }
});

test('the meter counts the multiplications of convolutions', () => {
  // Two images [4, 5, 5], two groups of 3 outputs, 3 x 2 filters: each result is a sum over 2 * 3 * 2 pixels.
  const [image, filter, result] = [
    [2, 4, 5, 5],
    [6, 2, 3, 2],
    [2, 6, 3, 4],
  ].map((shape) => tf.zeros(shape)) as [tf.Tensor, tf.Tensor, tf.Tensor];
  const expected = 2 * result.size * 2 * 3 * 2;
  const convolution = { kernelName: FUSED.conv2d, inputs: { x: image, filter }, outputs: [result] };
  assert.equal(layerFlopsOf(convolution), expected);
  const transposed = { kernelName: FUSED.conv2dInputGrad, inputs: { dy: result, filter }, outputs: [image] };
  assert.equal(layerFlopsOf(transposed), expected);
  tf.dispose([image, filter, result]);
});
