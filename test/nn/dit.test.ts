import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import type { Engine } from '../../src/backend/engine';
import { ConfigError } from '../../src/core/errors';
import * as tf from '../../src/core/tf';
import { type DitOptions, dit } from '../../src/nn/models/dit';
import { DitExperts } from '../../src/nn/models/dit-experts';
import { collectGradients } from '../support/collect-gradients';
import { testEngine } from '../support/wasm-test-engine';
import { loadReferenceValues, referenceCases, requireReference, scattered } from './model-reference';

const SHAPE: DitOptions = {
  layers: 1,
  dim: 16,
  heads: 2,
  ffn: 24,
  latent: [2, 4, 4],
  inChannels: 4,
  outChannels: 4,
  freqDim: 8,
  textDim: 6,
  textLen: 3,
};

let engine: Engine;
before(async () => {
  engine = await testEngine();
});

const random = (shape: readonly number[], number: number): tf.Tensor =>
  tf.tensor(
    scattered(
      shape.reduce((product, extent) => product * extent, 1),
      number,
      4,
    ),
    [...shape],
  );

/** As in the reference: latents, timesteps, text, velocity. */
function inputsOf({ latent, inChannels = 16, outChannels = 16, textLen = 512, textDim = 4096 }: DitOptions) {
  return {
    latents: random([2, inChannels, ...latent], 1001),
    timesteps: tf.tensor1d([612.5, 40]),
    text: random([2, textLen, textDim], 1002),
    velocity: random([2, outChannels, ...latent], 1003),
  };
}

for (const reference of referenceCases<DitOptions>('dit_reference.json')) {
  test(`loss and gradients equal those of diffusers' WanTransformer3DModel: ${reference.name}`, () => {
    const model = dit(reference.shape);
    loadReferenceValues(engine, model, reference);
    const { latents, timesteps, text, velocity } = inputsOf(reference.shape);
    const lossOf = (): tf.Tensor =>
      tf.mean(tf.square(tf.sub(model.apply(latents, timesteps, text), velocity)));
    // Values are made when they are first read.
    tf.tidy(() => void lossOf());
    const held = engine.memory.bytes;
    requireReference(engine, model, reference, lossOf, 5e-5);
    assert.equal(engine.memory.bytes, held, 'a pass leaves nothing');
    tf.dispose([latents, timesteps, text, velocity]);
    model.dispose();
  });
}

test('the timestep selects one of two experts, and the other has no gradients', () => {
  const model = dit({ ...SHAPE, experts: 2 });
  assert.ok(model instanceof DitExperts);
  const { latents, text, velocity } = inputsOf(SHAPE);
  const passOf = collectGradients(engine, model);
  for (const [steps, active] of [
    [[875, 990], 'high_noise_model.'],
    [[874.9, 0], 'low_noise_model.'],
  ] as const) {
    const timesteps = tf.tensor1d([...steps]);
    const found = passOf(() => tf.mean(tf.square(tf.sub(model.apply(latents, timesteps, text), velocity))));
    for (const [name, grad] of found) assert.equal(grad !== null, name.startsWith(active), name);
    timesteps.dispose();
  }
  const both = tf.tensor1d([900, 100]);
  assert.throws(
    () => model.apply(latents, both, text),
    /timesteps 900\.0, 100\.0 are on both sides of the boundary 875/,
  );
  tf.dispose([both, latents, text, velocity]);
  model.dispose();
});

test('sizes that do not fit are an error that names them', () => {
  assert.throws(
    () => dit({ ...SHAPE, latent: [2, 5, 4] }),
    /latent: \[2,5,4\] is not divisible by patch \[1,2,2\] \(5 by 2\)/,
  );
  assert.throws(() => dit({ ...SHAPE, inChannels: 3 }), /inChannels: 3 is less than outChannels 4/);
  assert.throws(() => dit({ ...SHAPE, heads: 16 }), ConfigError);
});

test('inputs of other shapes are an error that shows the wanted and the given ones', () => {
  const apply = dit(SHAPE) as unknown as (...inputs: readonly unknown[]) => unknown;
  const { latents, timesteps, text } = inputsOf(SHAPE);
  const wanted =
    /Dit takes latents float32 \[B, 4, F .*, H \(a multiple of 2\), W .*\], timesteps float32 \[2\], text float32 \[2, 3, 6\]; /;
  for (const wrong of [
    [latents, timesteps],
    [tf.zeros([2, 4, 2, 3, 4]), timesteps, text],
    [latents, tf.zeros([3]), text],
    [latents, timesteps, tf.zeros([2, 3, 5])],
  ]) {
    assert.throws(() => apply(...wrong), { code: 'SHAPE', message: wanted });
  }
  assert.throws(
    () => apply(latents, timesteps),
    /it was given latents float32 \[2,4,2,4,4\], .* text undefined$/,
  );
});
