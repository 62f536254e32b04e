import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { ConfigError } from '../../src/core/errors';
import * as tf from '../../src/core/tf';
import type { Engine } from '../../src/engine/backend/engine';
import { type DitOptions, dit } from '../../src/nn/models/dit';
import { DitExperts } from '../../src/nn/models/dit-experts';
import type { Module } from '../../src/nn/module';
import { assertClose, relativeDistance } from '../support/close';
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

test('the audio of a frame changes the patches of this frame alone, once the attention to it has learned', () => {
  const model = dit({ ...SHAPE, latent: [4, 4, 4], audioLayers: [0], audioDim: 5, audioTokens: 3 });
  giveValues(model);
  const { latents, text, timesteps } = inputsOf({ ...SHAPE, latent: [4, 4, 4] });
  const silent = tf.zeros([2, 4, 5]);
  const [first, second] = [silent, tf.concat([tf.zeros([2, 3, 5]), tf.ones([2, 1, 5])], 1)].map((audio) =>
    frames(model.apply(latents, timesteps, text, audio as tf.Tensor)),
  ) as [Float32Array[], Float32Array[]]; // one per audio
  assert.deepEqual(second.slice(0, 3), first.slice(0, 3));
  assert.notDeepEqual(second[3], first[3]);
  assert.throws(
    () => model.apply(latents, timesteps, text),
    /audio float32 \[2, 4, 5\]; it was given .* audio undefined/,
  );
  model.dispose();
});

test('a timestep per frame equals the same timestep of the video, and changes its own frame if it is another', () => {
  const model = dit({ ...SHAPE, layers: 1, latent: [4, 4, 4] });
  giveValues(model);
  const { latents, text } = inputsOf({ ...SHAPE, latent: [4, 4, 4] });
  const drawn = (timesteps: tf.Tensor): Float32Array =>
    model.apply(latents, timesteps, text).dataSync() as Float32Array;
  const whole = drawn(tf.tensor1d([700, 30]));
  assertClose(
    drawn(
      tf.tensor2d([
        [700, 700, 700, 700],
        [30, 30, 30, 30],
      ]),
    ),
    whole,
    1e-6,
    'equal timesteps',
  );
  assert.ok(
    relativeDistance(
      drawn(
        tf.tensor2d([
          [0, 700, 700, 700],
          [30, 30, 30, 30],
        ]),
      ),
      whole,
    ) > 1e-3,
  );
  model.dispose();
});

/** Gives all parameters values other than 0. */
function giveValues(model: Module): void {
  for (const [i, parameter] of model.parameters().entries()) {
    const values = scattered(parameter.size, i);
    parameter.defer({ fill: (start, target) => target.set(values.subarray(start, start + target.length)) });
  }
}

/** Splits a video [B, C, F, H, W] into frames. */
function frames(video: tf.Tensor): Float32Array[] {
  return tf.unstack(tf.transpose(video, [2, 0, 1, 3, 4])).map((frame) => frame.dataSync() as Float32Array);
}

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
