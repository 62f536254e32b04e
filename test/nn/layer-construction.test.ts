import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import * as tf from '../../src/core/tf';
import * as nn from '../../src/nn/names/nn-names';
import { testEngine } from '../support/wasm-test-engine';

before(() => testEngine());

const ones = (...shape: number[]): tf.Tensor => tf.ones(shape);

test('layers refuse sizes that do not fit together', () => {
  assert.throws(() => new nn.Conv2d(3, 8, 0), /nn\.Conv2d: kernelSize\[0\] is 0/);
  assert.throws(
    () => new nn.Conv1d(3, 8, 2, { groups: 2 }),
    /inChannels 3 and outChannels 8 must both be divisible by groups 2/,
  );
  assert.throws(() => new nn.GroupNorm(3, 8), /numChannels 8 must be divisible by numGroups 3/);
  assert.throws(() => new nn.MultiheadAttention(10, 3), /embedDim 10 must be divisible by numHeads 3/);
  assert.throws(() => new nn.Embedding(4, 2, { paddingIdx: 4 }), /paddingIdx 4 is not one of the 4 rows/);
  assert.throws(
    () => new nn.Upsample({ scaleFactor: 1.5 }),
    /scaleFactor is 1\.5, but must be a whole number/,
  );
  assert.throws(() => new nn.LSTM(3, 2, { numLayers: 0 }), /nn\.LSTM: numLayers is 0/);
  assert.throws(
    () => new nn.GRU(3, 2, { numLayers: 1e9 }),
    /nn\.GRU: numLayers is 1000000000; give at most 1024/,
  );
  const layer = (): nn.TransformerEncoderLayer => new nn.TransformerEncoderLayer(4, 2);
  assert.throws(() => new nn.TransformerEncoder(layer, 1e9), /numLayers is 1000000000; give at most 1024/);
  assert.throws(() => new nn.TemperatureGating(2, 1e9), /numExperts is 1000000000; give at most 4096/);
  assert.throws(
    () => new nn.MixtureOfExperts({ dim: 2, experts: 1e9 }),
    /experts is 1000000000; give at most 4096/,
  );
  assert.throws(
    () => new nn.AdaptiveAvgPool2d(1e9).apply(tf.ones([1, 1, 2, 2])),
    /the output size is 1000000000/,
  );
});

test('layers say which shape of input they need', () => {
  assert.throws(
    () => new nn.Conv2d(3, 8, 3).apply(ones(2, 8, 8, 3)),
    /input \[2,8,8,3\] has its 3 channels last, but images are \[N, C, H, W\]: write x\.transpose/,
  );
  assert.throws(() => new nn.Conv2d(3, 8, 3).apply(ones(8, 8)), /must be \[batch, channels, height, width\]/);
  assert.throws(
    () => new nn.BatchNorm2d(3).apply(ones(2, 4, 2, 2)),
    /x is \[2,4,2,2\], but must be \[N, 3, …, …\]/,
  );
  assert.throws(
    () => new nn.BatchNorm1d(3).apply(ones(1, 3)),
    /one value per channel, which has no variance; give more rows, or call eval\(\)/,
  );
  assert.throws(() => new nn.LSTM(3, 2).apply(ones(4, 2, 5)), /must be \[L, N, 3\] with batchFirst false/);
  assert.throws(
    () => new nn.GRU(3, 2).apply(ones(4, 2, 3), ones(2, 2)),
    /nn\.GRU at '': the initial state must be one tensor \[1,2,2\], not \[2,2\]/,
  );
  assert.throws(
    () =>
      new nn.MultiheadAttention(4, 2).apply(ones(3, 1, 4), ones(3, 1, 4), ones(3, 1, 4), {
        attnMask: ones(3, 2),
      }),
    /a mask \[3,2\] does not fit; its shape must be \[1,1,3,3\]/,
  );
  assert.throws(() => new nn.LayerNorm([2, 3]).apply(ones(4, 3, 2)), /its last dims must be \[2,3\]/);
  const attention = new nn.MultiheadAttention(4, 2);
  assert.throws(
    () => attention.apply(ones(3, 2, 5), ones(3, 2, 4), ones(3, 2, 4)),
    /the query's last dim must be 4/,
  );
});

test('losses say which targets they need', () => {
  const { crossEntropy, mseLoss } = nn.functional;
  assert.throws(() => crossEntropy(ones(2, 3), ones(2)), /labels must be int32 \[2\], not float32 \[2\]/);
  assert.throws(
    () => crossEntropy(ones(2, 4, 3), tf.ones([2, 4], 'int32')),
    /classes are in dim 1.*reshape logits \[B, T, C\]/,
  );
  assert.throws(
    () => crossEntropy(ones(2, 3), tf.tensor1d([0, 3], 'int32')),
    /is 3, but indices of 3 classes are 0 to 2/,
  );
  assert.throws(
    () => mseLoss(ones(2, 1), ones(2)),
    /mseLoss: input \[2,1\] and target \[2\] must have the same shape/,
  );
});

test('the mean cross-entropy of a batch whose rows are all ignored is NaN, as in torch', () => {
  const loss = nn.functional.crossEntropy(ones(2, 3), tf.tensor1d([-100, -100], 'int32'));
  assert.ok(Number.isNaN(loss.dataSync()[0]));
});

test("initial values have the bounds and distributions of torch's", () => {
  const uniforms: readonly [nn.Module, string, number][] = [
    [new nn.Conv2d(16, 32, 3), 'weight', 1 / 12],
    [new nn.Conv2d(16, 32, 3, { groups: 4 }), 'weight', 1 / 6],
    [new nn.Conv1d(16, 400, 4), 'bias', 1 / 8],
    [new nn.ConvTranspose2d(32, 16, 3), 'weight', 1 / 12],
    [new nn.LSTM(30, 25, { numLayers: 2 }), 'weight_hh_l1', 1 / 5],
    [new nn.GRU(30, 25), 'weight_ih_l0', 1 / 5],
    [new nn.MultiheadAttention(24, 2), 'in_proj_weight', Math.sqrt(6 / 96)],
    [new nn.MultiheadAttention(25, 1), 'out_proj.weight', 1 / 5],
  ];
  for (const [layer, name, bound] of uniforms) {
    const values = Float32Array.from(layer.namedParameters().get(name)?.tensor.dataSync() ?? []);
    const largest = values.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
    const variance = values.reduce((sum, value) => sum + value ** 2, 0) / values.length;
    const what = `${layer.constructor.name}.${name}`;
    assert.ok(largest <= bound && largest > 0.97 * bound, `${what}: ${largest} of ${bound}`);
    assert.ok(Math.abs(variance / (bound ** 2 / 3) - 1) < 0.15, `${what}: variance ${variance}`);
  }
  const { in_proj_bias: bias } = new nn.MultiheadAttention(4, 2);
  assert.deepEqual([...(bias?.tensor.dataSync() ?? [])], Array(12).fill(0));
});

test('the row of padding is initially zero, whichever range of the table is read', () => {
  const { weight } = new nn.Embedding(4, 3, { paddingIdx: 1 });
  const part = new Float32Array(5);
  weight.source?.fill(2, part);
  assert.deepEqual([...part.slice(1, 4)], [0, 0, 0]);
  assert.ok(part[0] !== 0 && part[4] !== 0);
});
