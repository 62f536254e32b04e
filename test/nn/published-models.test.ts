import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseTrainConfig, type TrainConfigInput } from '../../src/config/train-config';
import { buildModel } from '../../src/nn/models/build-model';
import { DitExperts } from '../../src/nn/models/dit-experts';
import type { Module } from '../../src/nn/module';
import { KNOWN_MODELS } from '../../src/planner/known';

const shapesOf = (model: TrainConfigInput['model']): Module => buildModel(parseTrainConfig({ model }));

// Published: the models' own cards and checkpoints.
const PUBLISHED = {
  gpt2: 124_439_808,
  'gpt2-xl': 1_557_611_200,
  'llama3-8b': 8_030_261_248,
  'llama3-70b': 70_553_706_496,
  'llama3-405b': 405_853_388_800,
  // Two transformers, of which a step runs one.
  'wan2.2-a14b': 2 * 14_288_491_584,
} as const;

for (const [name, numParams] of Object.entries(PUBLISHED)) {
  test(`${name} has ${numParams} parameters`, () => {
    assert.equal(shapesOf(name as keyof typeof PUBLISHED).numParams(), numParams);
  });
}

test("Wan2.2's experts have equal sizes, and image to video has 20 more input channels in its patches", () => {
  const [text, image] = [shapesOf('wan2.2-a14b'), shapesOf('wan2.2-i2v-a14b')];
  assert.ok(text instanceof DitExperts && image instanceof DitExperts);
  assert.equal(text.high_noise_model.numParams(), 14_288_491_584);
  assert.equal(text.low_noise_model.numParams(), 14_288_491_584);
  assert.equal(image.high_noise_model.numParams() - text.high_noise_model.numParams(), 20 * 4 * 5120);
});

test('parameter names equal those of the published checkpoints', () => {
  const llama = shapesOf('llama3-8b').namedParameters();
  assert.deepEqual(llama.get('model.layers.31.self_attn.k_proj.weight')?.shape, [1024, 4096]);
  assert.deepEqual(llama.get('model.layers.0.mlp.down_proj.weight')?.shape, [4096, 14_336]);
  assert.deepEqual(llama.get('lm_head.weight')?.shape, [128_256, 4096]);
  assert.equal(llama.size, 32 * 9 + 3);
  const wan = shapesOf('wan2.2-a14b').namedParameters();
  assert.deepEqual(wan.get('high_noise_model.patch_embedding.weight')?.shape, [5120, 16, 1, 2, 2]);
  assert.deepEqual(wan.get('low_noise_model.blocks.39.cross_attn.norm_k.weight')?.shape, [5120]);
  assert.deepEqual(wan.get('low_noise_model.time_projection.1.weight')?.shape, [30_720, 5120]);
  assert.deepEqual(wan.get('high_noise_model.head.modulation')?.shape, [1, 2, 5120]);
});

test("the planner's formula gives the number of parameters of the modules", () => {
  for (const [name, { params }] of Object.entries(KNOWN_MODELS)) {
    // The names are the catalogue's own.
    assert.equal(shapesOf(name as keyof typeof KNOWN_MODELS).numParams(), params, name);
  }
});
