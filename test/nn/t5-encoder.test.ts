import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { parseTrainConfig } from '../../src/config/train-config';
import * as tf from '../../src/core/tf';
import type { Engine } from '../../src/engine/backend/engine';
import { buildModel } from '../../src/nn/models/build-model';
import { type T5EncoderOptions, t5Encoder } from '../../src/nn/models/t5-encoder';
import { taskOf } from '../../src/training/config-task';
import { soloGroup } from '../support/solo-group';
import { TallyObserver } from '../support/tally-observer';
import { testEngine } from '../support/wasm-test-engine';
import { loadReferenceValues, referenceCases, requireReference, scattered } from './model-reference';

let engine: Engine;
before(async () => {
  engine = await testEngine();
});

for (const reference of referenceCases<T5EncoderOptions>('t5_reference.json')) {
  test(`values and gradients equal those of Hugging Face's UMT5EncoderModel: ${reference.name}`, () => {
    const model = t5Encoder(reference.shape);
    loadReferenceValues(engine, model, reference);
    const rows = [0, 1].map((b) => Array.from({ length: 9 }, (_, i) => (7 * i + 3 * b) % 30));
    const ids = tf.tensor2d(rows, [2, 9], 'int32');
    const mask = tf.tensor2d(
      [0, 1].map((b) => Array.from({ length: 9 }, (_, i) => (b === 1 && i > 5 ? 0 : 1))),
    );
    const weights = tf.mul(tf.tensor3d(scattered(2 * 9 * 12, 1001, 4), [2, 9, 12]), tf.expandDims(mask, 2));
    requireReference(engine, model, reference, () => tf.mean(tf.mul(model.apply(ids, mask), weights)), 1e-5);
    tf.dispose([ids, mask, weights]);
    model.dispose();
  });
}

test('umt5-xxl has a table of relative positions in every layer', () => {
  const parameters = buildModel(parseTrainConfig({ model: 'umt5-xxl-encoder' })).namedParameters();
  assert.deepEqual(parameters.get('blocks.23.pos_embedding.embedding.weight')?.shape, [32, 64]);
  assert.deepEqual(parameters.get('blocks.0.ffn.gate.0.weight')?.shape, [10_240, 4096]);
  const ofLayer = 4 * 4096 * 4096 + 3 * 4096 * 10_240 + 2 * 4096 + 32 * 64;
  const numParams = [...parameters.values()].reduce((sum, { size }) => sum + size, 0);
  assert.equal(numParams, 24 * ofLayer + 256_384 * 4096 + 4096);
});

test('an encoder alone is refused for training, since it has no loss', () => {
  const config = parseTrainConfig({
    model: { kind: 't5-encoder', layers: 1, dim: 8, heads: 2, ffn: 8, vocab: 300, seq: 4 },
  });
  const model = buildModel(config);
  const context = { engine, group: soloGroup(engine), observer: new TallyObserver() };
  assert.throws(() => taskOf(context, model, config, { world: 1 }), /model\.kind: 't5-encoder' has no loss/);
});

test('ids and masks of other shapes are an error that shows the wanted and the given ones', () => {
  const model = t5Encoder({ layers: 1, dim: 4, heads: 1, vocab: 5, ffn: 8 } as T5EncoderOptions);
  assert.throws(() => model.apply(tf.zeros([4], 'int32')), {
    code: 'SHAPE',
    message: 'T5Encoder takes ids int32 [B, T]; it was given ids int32 [4]',
  });
  assert.throws(
    () => model.apply(tf.zeros([1, 4], 'int32'), tf.ones([1, 3])),
    /takes ids int32 \[B, T\], mask float32 \[1, 4\]; it was given ids int32 \[1,4\], mask float32 \[1,3\]/,
  );
  assert.throws(() => model.apply(undefined as never), /it was given ids undefined/);
});
