import type { MovingShapesConfig } from '../../config';
import { seeded } from '../../core';
import { NUM_TIMESTEPS } from '../../nn';
import type { ValidationBatches } from './batch';
import { type LatentBatch, type LatentOptions, type LatentSource, timeOf } from './latents';
import { type Clip, fillWord, MovingShapes, type Scene, tokensOf } from './moving-shapes';

/** The settings of a config that define its videos of moving shapes. */
export interface MovingShapeOptions extends Omit<LatentOptions, 'vocab'> {
  readonly movingShapes: MovingShapesConfig;
  /** Number of data-parallel ranks, which share the validation videos. */
  readonly world: number;
}

/** Number of timesteps at which each validation video is evaluated. The timesteps are the middles of equal intervals. */
const VALIDATION_TIMES = 16;

/** A clip, the share of noise that is mixed with it, the scene of its caption, and the labels that seed the noise. */
interface Row {
  readonly clip: Clip;
  readonly time: number;
  readonly caption: Scene;
  readonly labels: readonly (string | number)[];
}

/**
 * Makes noised latents of moving shapes and their captions. Timesteps are chosen as in `syntheticLatents`. Validation videos are
 * the same for any number of ranks. All ranks evaluate the same timestep at the same time, and therefore the same expert.
 */
export function movingShapeBatches(options: MovingShapeOptions): LatentSource {
  const { seed, batch, movingShapes } = options;
  const shapes = new MovingShapes(options.shape, movingShapes);
  const trained = (rank: number, index: number, row: number): Row => {
    const labels = ['video', rank, index, row];
    const random = seeded(seed, 'clip', ...labels);
    const clip = shapes.clip(random);
    const randomScene = shapes.scene(random);
    const time = timeOf(options, index, random.uniform());
    return { clip, time, caption: movingShapes.shuffleCaptions ? randomScene : clip.scene, labels };
  };
  return {
    name: 'moving shapes',
    batch: (rank, index) =>
      latentBatch(
        options,
        Array.from({ length: batch }, (_, row) => trained(rank, index, row)),
      ),
    validation: validationOf(options, shapes),
  };
}

function validationOf(options: MovingShapeOptions, shapes: MovingShapes): ValidationBatches<LatentBatch> {
  const { seed, batch, world, movingShapes } = options;
  const { validation: numVideos } = movingShapes;
  const numChunks = Math.ceil(numVideos / (world * batch));
  const rowOf = (video: number, step: number): Row => {
    const clip = shapes.clip(seeded(seed, 'validation', video));
    const labels = ['validation', video, step];
    return { clip, time: (step + 0.5) / VALIDATION_TIMES, caption: clip.scene, labels };
  };
  return {
    numRows: numVideos * VALIDATION_TIMES,
    numBatches: numChunks * VALIDATION_TIMES,
    batch(rank, index) {
      const [step, chunk] = [Math.floor(index / numChunks), index % numChunks];
      const first = (chunk * world + rank) * batch;
      const counted = Math.min(batch, Math.max(0, numVideos - first));
      // A rank that has no video left runs the first video, which then does not count.
      const videos = Array.from({ length: Math.max(1, counted) }, (_, i) => (counted === 0 ? 0 : first + i));
      return {
        batch: latentBatch(
          options,
          videos.map((video) => rowOf(video, step)),
        ),
        counted,
      };
    },
  };
}

function latentBatch({ shape, seed }: MovingShapeOptions, rows: readonly Row[]): LatentBatch {
  const { textLen, textDim, audioDim } = shape;
  const tokens = rows.map(({ caption }) => tokensOf(caption, textLen));
  const noises = rows.map(({ clip, labels }) => {
    const random = seeded(seed, 'noise', ...labels);
    return clip.latents.map(() => random.normal());
  });
  const over = (fill: (target: Float32Array, row: Row, i: number) => void) => (target: Float32Array) => {
    const length = target.length / rows.length;
    for (const [i, row] of rows.entries()) fill(target.subarray(i * length, (i + 1) * length), row, i);
  };
  return {
    batch: rows.length,
    timesteps: Float32Array.from(rows, ({ time }) => time * NUM_TIMESTEPS),
    tokens: Int32Array.from(tokens.flatMap((row) => [...row])),
    fillLatents: over((target, { clip, time }, i) => {
      for (const [j, value] of clip.latents.entries())
        target[j] = time * (noises[i]?.[j] ?? 0) + (1 - time) * value;
      fillImage(target.subarray(clip.latents.length), clip, shape.latent);
    }),
    fillVelocity: over((target, { clip }, i) => {
      for (const [j, value] of clip.latents.entries()) target[j] = (noises[i]?.[j] ?? 0) - value;
    }),
    fillText: over((target, _, i) => {
      for (const [j, token] of tokens[i]?.entries() ?? [])
        fillWord(token, target.subarray(j * textDim, (j + 1) * textDim));
    }),
    fillAudio: over((target, { clip }) => fillAudio(target, clip, audioDim)),
  };
}

/**
 * Writes the channels that condition on the first frame: a mask, which is 1 in the first latent frame and 0 in all others,
 * then the latents of the first frame, with 0 in all other frames. `target` begins after the video's channels.
 * Source: Wan2.2-I2V's y.
 */
export function fillImage(
  target: Float32Array,
  { latents }: Pick<Clip, 'latents'>,
  latent: readonly number[],
): void {
  const [frames = 1, rows = 0, columns = 0] = latent;
  const [plane, channel] = [rows * columns, frames * rows * columns];
  const numMasks = (target.length - latents.length) / channel;
  for (let i = 0; i < target.length; i++) {
    const isFirst = i % channel < plane;
    const place = i - numMasks * channel;
    target[i] = isFirst ? (place < 0 ? 1 : (latents[place] ?? 0)) : 0;
  }
}

/** Writes the audio of each latent frame: tones whose phases are the row and the column of the shape. */
export function fillAudio(target: Float32Array, { track }: Pick<Clip, 'track'>, width: number): void {
  for (let i = 0; i < target.length; i++) {
    const [frame, feature] = [Math.floor(i / width), i % width];
    const phase = Math.PI * (track[frame * 2 + (feature % 2)] ?? 0) * 2 ** (Math.floor(feature / 4) % 4);
    target[i] = feature % 4 < 2 ? Math.sin(phase) : Math.cos(phase);
  }
}
