import type { DitConfig } from '../../config';
import { seeded } from '../../core';
import { NUM_TIMESTEPS } from '../../nn';
import type { ValidationBatches } from './batch';
import type { LatentBatch } from './latents';
import { type Clip, fillWord } from './moving-shapes';

/** Number of timesteps at which each validation video is evaluated. The timesteps are the middles of equal intervals. */
const VALIDATION_TIMES = 16;

/** A video, its text, and the share of noise that is mixed with it. */
export interface NoisedVideo {
  /** The video without noise. Shapes: [outChannels, F, H, W]. */
  readonly latents: Float32Array;
  /** The path from which the audio is made, as `Clip` has it; omitted if the audio is silence. */
  readonly track?: Float32Array | undefined;
  /** The text's token ids [textLen], 0 for padding. */
  readonly tokens: Int32Array;
  readonly time: number;
  /** The labels that seed the noise. */
  readonly labels: readonly (string | number)[];
}

/** The settings of a config that define its noise. */
export interface NoiseOptions {
  readonly shape: DitConfig;
  readonly seed: number;
}

/** Mixes each video with its noise, and makes a microbatch of them. */
export function noisedBatch({ shape, seed }: NoiseOptions, videos: readonly NoisedVideo[]): LatentBatch {
  const { textDim, audioDim } = shape;
  const noises = videos.map(({ latents, labels }) => {
    const random = seeded(seed, 'noise', ...labels);
    return latents.map(() => random.normal());
  });
  const over =
    (fill: (target: Float32Array, video: NoisedVideo, i: number) => void) => (target: Float32Array) => {
      const length = target.length / videos.length;
      for (const [i, video] of videos.entries())
        fill(target.subarray(i * length, (i + 1) * length), video, i);
    };
  return {
    batch: videos.length,
    timesteps: Float32Array.from(videos, ({ time }) => time * NUM_TIMESTEPS),
    tokens: Int32Array.from(videos.flatMap(({ tokens }) => [...tokens])),
    fillLatents: over((target, { latents, time }, i) => {
      for (const [j, value] of latents.entries())
        target[j] = time * (noises[i]?.[j] ?? 0) + (1 - time) * value;
      fillImage(target.subarray(latents.length), { latents }, shape.latent);
    }),
    fillVelocity: over((target, { latents }, i) => {
      for (const [j, value] of latents.entries()) target[j] = (noises[i]?.[j] ?? 0) - value;
    }),
    fillText: over((target, { tokens }) => {
      for (const [j, token] of tokens.entries())
        fillWord(token, target.subarray(j * textDim, (j + 1) * textDim));
    }),
    fillAudio: over((target, { track }) => {
      if (track === undefined) target.fill(0);
      else fillAudio(target, { track }, audioDim);
    }),
  };
}

/** The validation videos, and the ranks that share them. */
interface ValidationOptions extends NoiseOptions {
  readonly numVideos: number;
  readonly batch: number;
  /** Number of data-parallel ranks. */
  readonly world: number;
  /** Returns a validation video without its share of noise. */
  readonly videoOf: (video: number) => Omit<NoisedVideo, 'time' | 'labels'>;
}

/**
 * Makes the batches of validation videos, which are the same for any number of ranks. All ranks evaluate the same timestep at the
 * same time, and therefore the same expert.
 */
export function noisedValidation(options: ValidationOptions): ValidationBatches<LatentBatch> {
  const { numVideos, batch, world, videoOf } = options;
  const numChunks = Math.ceil(numVideos / (world * batch));
  const rowOf = (video: number, step: number): NoisedVideo => ({
    ...videoOf(video),
    time: (step + 0.5) / VALIDATION_TIMES,
    labels: ['validation', video, step],
  });
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
        batch: noisedBatch(
          options,
          videos.map((video) => rowOf(video, step)),
        ),
        counted,
      };
    },
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
