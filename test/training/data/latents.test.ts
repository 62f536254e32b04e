import assert from 'node:assert/strict';
import { test } from 'node:test';
import { modelShape } from '../../../src/config/settings/model';
import { parseTrainConfig } from '../../../src/config/train-config';
import { type LatentBatch, syntheticLatents } from '../../../src/training/data/latents';

const MODEL = {
  kind: 'dit',
  layers: 1,
  dim: 8,
  heads: 2,
  ffn: 8,
  latent: [2, 4, 4] as [number, number, number],
  inChannels: 5,
  outChannels: 3,
  textDim: 6,
  textLen: 4,
} as const;
const PLACES = 2 * 4 * 4;

function sourceOf(experts: 1 | 2, accumulation = 1, batch = 2) {
  const shape = modelShape(parseTrainConfig({ model: { ...MODEL, experts } }));
  assert.ok(shape.kind === 'dit');
  return syntheticLatents({ shape, batch, accumulation, seed: 3, vocab: null });
}

function valuesOf(batch: LatentBatch) {
  const latents = new Float32Array(batch.batch * 5 * PLACES);
  const velocity = new Float32Array(batch.batch * 3 * PLACES);
  const text = new Float32Array(batch.batch * 4 * 6);
  batch.fillLatents(latents);
  batch.fillVelocity(velocity);
  batch.fillText(text);
  return { timesteps: batch.timesteps, latents, velocity, text };
}

test('the same rank and index always give the same videos, others give other videos', () => {
  const [one, other] = [sourceOf(2), sourceOf(2)];
  assert.deepEqual(valuesOf(one.batch(1, 4)), valuesOf(other.batch(1, 4)));
  assert.notDeepEqual(valuesOf(one.batch(0, 4)).latents, valuesOf(one.batch(1, 4)).latents);
  assert.notDeepEqual(valuesOf(one.batch(1, 2)).latents, valuesOf(one.batch(1, 4)).latents);
});

test('x + t · velocity is on a straight line to the noise, and without its noise a video is its condition', () => {
  const { timesteps, latents, velocity } = valuesOf(sourceOf(1).batch(0, 0));
  timesteps.forEach((timestep, row) => {
    const time = timestep / 1000;
    const [from, at] = [row * 5 * PLACES, row * 3 * PLACES];
    // Two channels of condition: the first two of the video.
    for (let i = 0; i < 2 * PLACES; i++) {
      const clean = (latents[from + i] ?? 0) - time * (velocity[at + i] ?? 0);
      assert.ok(Math.abs(clean - (latents[from + 3 * PLACES + i] ?? 0)) < 1e-5);
    }
  });
});

test('with two experts all videos of a step are on one side of the boundary, and steps take turns', () => {
  const source = sourceOf(2, 3, 4);
  for (let index = 0; index < 12; index++) {
    for (const rank of [0, 1, 2]) {
      const isHigh = Math.floor(index / 3) % 2 === 0;
      for (const timestep of source.batch(rank, index).timesteps) {
        assert.equal(timestep >= 875, isHigh, `microbatch ${index} of rank ${rank}: ${timestep}`);
        assert.ok(timestep >= 0 && timestep < 1000);
      }
    }
  }
});
