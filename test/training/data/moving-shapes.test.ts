import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type DitConfig, ditSchema } from '../../../src/config/families/kinds';
import { CAPTION_LENGTH, MIN_VOCAB } from '../../../src/config/settings/videos';
import { parseTrainConfig } from '../../../src/config/train-config';
import { seeded } from '../../../src/core/random';
import type { LatentBatch } from '../../../src/training/data/latents';
import { movingShapeBatches } from '../../../src/training/data/moving-shape-batches';
import { captionOf, MovingShapes, sceneOf, tokensOf } from '../../../src/training/data/moving-shapes';
import { PatchCoder } from '../../../src/training/data/video-coder';
import { normals } from '../../support/close';

const SHAPE: DitConfig = ditSchema.parse({
  ...{ kind: 'dit', layers: 1, dim: 8, heads: 2, ffn: 8, textDim: 4, textLen: 8, experts: 2, boundary: 0.5 },
  ...{ latent: [3, 4, 5], inChannels: 28, outChannels: 12, patch: [1, 1, 1], audioLayers: [0], audioDim: 6 },
});
const CONFIG = parseTrainConfig({}).movingShapes;
const PLACES = 3 * 4 * 5;

function batchesOf({
  world = 1,
  batch = 2,
  ...config
}: Partial<typeof CONFIG & { world: number; batch: number }> = {}) {
  const movingShapes = { ...CONFIG, validation: 5, ...config };
  return movingShapeBatches({ shape: SHAPE, batch, accumulation: 1, seed: 3, world, movingShapes });
}

function valuesOf(batch: LatentBatch) {
  const filled = (size: number, fill: (target: Float32Array) => void): Float32Array => {
    const target = new Float32Array(batch.batch * size);
    fill(target);
    return target;
  };
  return {
    latents: filled(28 * PLACES, batch.fillLatents),
    velocity: filled(12 * PLACES, batch.fillVelocity),
    text: filled(8 * 4, batch.fillText),
    audio: filled(3 * 6, batch.fillAudio),
  };
}

test('the patch coder is orthonormal: it keeps lengths, and decodes what it encodes', () => {
  for (const [patch, grid] of [
    [
      [1, 2, 2],
      [3, 4, 5],
    ],
    [
      [2, 1, 1],
      [2, 3, 1],
    ],
    [
      [1, 4, 4],
      [1, 2, 2],
    ],
  ] as const) {
    const coder = new PatchCoder(patch);
    const pixels = normals(coder.channels * grid.reduce<number>((a, b) => a * b, 1), 'pixels');
    const latents = coder.encode(pixels, grid);
    assert.ok(Math.abs(Math.hypot(...latents) / Math.hypot(...pixels) - 1) < 1e-6);
    const distance = Math.hypot(...coder.decode(latents, grid).map((value, i) => value - (pixels[i] ?? 0)));
    assert.ok(distance < 1e-5 * Math.hypot(...pixels), `${distance}`);
  }
});

test('a grey picture has all its values in the first channel of each patch', () => {
  const latents = new PatchCoder([1, 2, 2]).encode(new Float32Array(12 * 6).fill(1), [1, 2, 3]);
  assert.deepEqual(
    [...latents].map((value) => Math.round(value * 1e5) / 1e5),
    [
      ...new Array<number>(6).fill(3.4641), // the square root of 12 pixels
      ...new Array<number>(66).fill(0),
    ],
  );
});

test('a video shows what its caption says: the colour, and the way of its centre', () => {
  const shapes = new MovingShapes(SHAPE, CONFIG);
  const scene = sceneOf('a red square moves left');
  assert.equal(captionOf(scene), 'a red square moves left');
  const { latents } = shapes.clip(seeded(0, 'x'), scene);
  const pixels = shapes.decode(latents);
  const [frames, rows, columns] = shapes.size;
  const plane = rows * columns;
  const centreOf = (frame: number): number => {
    let [sum, weighted] = [0, 0];
    for (let i = 0; i < plane; i++) {
      const red = pixels[frame * plane + i] ?? 0;
      sum += red;
      weighted += red * (i % columns);
      assert.ok(
        Math.abs((pixels[(frames + frame) * plane + i] ?? 0) + red) < 1e-5,
        'green is -1 where red is 1',
      );
    }
    return weighted / sum;
  };
  assert.ok(centreOf(0) - centreOf(frames - 1) > 0.3 * columns);
  assert.throws(() => sceneOf('a red dog moves left'), /"a red dog moves left" is no caption/);
  assert.equal(
    new Set(['red', 'blue'].map((color) => tokensOf(sceneOf(`a ${color} square moves left`), 8).join())).size,
    2,
  );
});

test('a config is checked against the tokens of all captions, and the words of the longest', () => {
  const shapes = new MovingShapes(SHAPE, { ...CONFIG, colors: 8, directions: 8 });
  const random = seeded(0, 'captions');
  const captions = Array.from({ length: 400 }, () => tokensOf(shapes.scene(random), 8));
  assert.equal(new Set(captions.flatMap((tokens) => [...tokens])).size, MIN_VOCAB);
  assert.equal(
    Math.max(...captions.map((tokens) => tokens.filter((token) => token > 0).length)),
    CAPTION_LENGTH,
  );
});

test('batches are the same in every run, follow a straight line to noise, and carry image and audio', () => {
  const [batch, again] = [batchesOf().batch(1, 4), batchesOf().batch(1, 4)];
  assert.deepEqual(valuesOf(batch), valuesOf(again));
  const { latents, velocity } = valuesOf(batch);
  batch.timesteps.forEach((timestep, row) => {
    assert.ok(timestep >= 500, 'step 4 is of the high-noise expert');
    const [from, at] = [row * 28 * PLACES, row * 12 * PLACES];
    for (let i = 0; i < 12 * PLACES; i++) {
      const clean = (latents[from + i] ?? 0) - (timestep / 1000) * (velocity[at + i] ?? 0);
      const image = latents[from + 16 * PLACES + i] ?? 0;
      const isFirst = i % PLACES < 20;
      assert.ok(Math.abs(image - (isFirst ? clean : 0)) < 1e-5);
    }
    const mask = latents.subarray(from + 12 * PLACES, from + 16 * PLACES);
    assert.ok(mask.every((value, i) => value === (i % PLACES < 20 ? 1 : 0)));
  });
});

test('a shuffled caption is a random one, in training only', () => {
  const [plain, shuffled] = [batchesOf({ batch: 16 }), batchesOf({ batch: 16, shuffleCaptions: true })];
  const [one, other] = [plain.batch(0, 0), shuffled.batch(0, 0)];
  assert.deepEqual(valuesOf(other).velocity, valuesOf(one).velocity);
  assert.notDeepEqual(other.tokens, one.tokens);
  assert.deepEqual(shuffled.validation?.batch(0, 0).batch.tokens, plain.validation?.batch(0, 0).batch.tokens);
});

test('validation has the same rows on any number of ranks, and all ranks are at the same timestep', () => {
  const rowsOf = (world: number): string[] => {
    const { validation } = batchesOf({ world });
    assert.ok(validation);
    assert.equal(validation.numRows, 5 * 16);
    const rows: string[] = [];
    for (let index = 0; index < validation.numBatches; index++) {
      const times = new Set<number>();
      for (let rank = 0; rank < world; rank++) {
        const { batch, counted } = validation.batch(rank, index);
        const { velocity } = valuesOf(batch);
        for (const time of batch.timesteps) times.add(time);
        for (let row = 0; row < counted; row++)
          rows.push(`${batch.timesteps[row]} ${velocity[row * 12 * PLACES]}`);
      }
      assert.equal(times.size, 1);
    }
    return rows.sort();
  };
  const alone = rowsOf(1);
  assert.equal(new Set(alone).size, 80);
  for (const world of [2, 3, 4]) assert.deepEqual(rowsOf(world), alone);
});
