import type { DitConfig } from '../../config';
import { type Random, seeded } from '../../core';
import { NUM_TIMESTEPS } from '../../nn';
import type { ValidationBatches } from './batch';

/**
 * A microbatch of noised videos and their texts. Its methods write into the caller's arrays.
 */
export interface LatentBatch {
  readonly batch: number;
  /** One timestep per video, in [0, 1000). All timesteps of a microbatch are on one side of the experts' boundary. */
  readonly timesteps: Float32Array;
  /** Writes the noised videos, and the channels that condition them: [batch, inChannels, F, H, W]. */
  fillLatents(target: Float32Array): void;
  /** Writes the values to predict, noise minus video: [batch, outChannels, F, H, W]. */
  fillVelocity(target: Float32Array): void;
  /** The texts' token ids [batch · textLen], 0 for padding; null if texts have no words. */
  readonly tokens: Int32Array | null;
  /** Writes the embedded texts: [batch, textLen, textDim]. */
  fillText(target: Float32Array): void;
  /** Writes the audio of each latent frame: [batch, F, audioDim]. */
  fillAudio(target: Float32Array): void;
}

/** Deterministic microbatches: the same rank and index give the same values in every run. */
export interface LatentSource {
  readonly name: string;
  /** Returns a microbatch of a rank; `index` counts from 0 over the whole run. */
  batch(rank: number, index: number): LatentBatch;
  /** The videos that are never trained on; null if there are none. */
  readonly validation: ValidationBatches<LatentBatch> | null;
}

/** The settings of a config that define its videos. */
export interface LatentOptions {
  readonly shape: DitConfig;
  readonly batch: number;
  /** Microbatches per step. All timesteps of a step are on one side of the boundary; steps alternate between the sides. */
  readonly accumulation: number;
  readonly seed: number;
  /** The size of the vocabulary from which texts for an encoder are made; null if texts have no words. */
  readonly vocab: number | null;
}

/** Number of different texts; each text has its own video. */
const NUM_TEXTS = 8;

/**
 * Makes synthetic videos. Every text consists of random numbers and has its own video, which is made of waves. Noise and video
 * are mixed linearly. With two experts, steps alternate between them, starting with the high-noise expert.
 * Source: Lipman et al. 2022 (flow matching); Liu et al. 2022 (x_t = (1 - t) x + t noise, velocity noise - x).
 */
export function syntheticLatents(options: LatentOptions): LatentSource {
  const { vocab } = options;
  return {
    name: 'synthetic latents',
    validation: null,
    batch(rank, index) {
      const videos = Array.from({ length: options.batch }, (_, row) => videoOf(options, rank, index, row));
      const over = (part: (video: Video, target: Float32Array) => void) => (target: Float32Array) => {
        const length = target.length / videos.length;
        for (const [i, video] of videos.entries()) part(video, target.subarray(i * length, (i + 1) * length));
      };
      return {
        batch: options.batch,
        timesteps: Float32Array.from(videos, ({ time }) => time * NUM_TIMESTEPS),
        fillLatents: over((video, target) => fillLatents(video, options, target)),
        fillVelocity: over((video, target) => fillVelocity(video, options, target)),
        tokens: vocab === null ? null : tokensOf(options, vocab, videos),
        fillText: over(({ text }, target) => fillNormal(target, seeded(options.seed, 'text', text))),
        fillAudio: over(({ text }, target) => fillNormal(target, seeded(options.seed, 'audio', text))),
      };
    },
  };
}

/** One video: the index of its text, its share of noise, and the labels that seed its random numbers. */
interface Video {
  readonly text: number;
  readonly time: number;
  readonly labels: readonly number[];
}

function videoOf(options: LatentOptions, rank: number, index: number, row: number): Video {
  const labels = [rank, index, row];
  const random = seeded(options.seed, 'video', ...labels);
  const text = random.integer(NUM_TEXTS);
  return { text, time: timeOf(options, index, random.uniform()), labels };
}

/** Returns the share of noise in a video of microbatch `index`; `uniform` is a random number in [0, 1). */
export function timeOf(
  { shape, accumulation }: Pick<LatentOptions, 'shape' | 'accumulation'>,
  index: number,
  uniform: number,
): number {
  const step = Math.floor(index / accumulation);
  const [from, to] =
    shape.experts === 1 ? [0, 1] : step % 2 === 0 ? [shape.boundary, 1] : [0, shape.boundary];
  return from + (to - from) * uniform;
}

/** Returns random tokens of each video's text, without padding. */
function tokensOf({ shape, seed }: LatentOptions, vocab: number, videos: readonly Video[]): Int32Array {
  const tokens = new Int32Array(videos.length * shape.textLen);
  for (const [row, { text }] of videos.entries()) {
    const random = seeded(seed, 'tokens', text);
    const own = tokens.subarray(row * shape.textLen, (row + 1) * shape.textLen);
    for (let i = 0; i < own.length; i++) own[i] = 1 + random.integer(vocab - 1);
  }
  return tokens;
}

/** Writes the noised channels, then the channels that condition the model: the video without noise. */
function fillLatents(
  { text, time, labels }: Video,
  { shape, seed }: LatentOptions,
  target: Float32Array,
): void {
  const length = (target.length / shape.inChannels) * shape.outChannels;
  const noised = target.subarray(0, length);
  fillNormal(noised, seeded(seed, 'noise', ...labels));
  for (let i = 0; i < length; i++) {
    noised[i] = time * (noised[i] ?? 0) + (1 - time) * waveAt(text, i, shape);
  }
  for (let i = length; i < target.length; i++) target[i] = waveAt(text, i - length, shape);
}

function fillVelocity({ text, labels }: Video, { shape, seed }: LatentOptions, target: Float32Array): void {
  fillNormal(target, seeded(seed, 'noise', ...labels));
  for (let i = 0; i < target.length; i++) target[i] = (target[i] ?? 0) - waveAt(text, i, shape);
}

/** A wave through frames, rows and columns; text and channel determine its direction and phase. */
function waveAt(text: number, i: number, { latent: [frames, rows, columns] }: DitConfig): number {
  const column = i % columns;
  const row = Math.floor(i / columns) % rows;
  const frame = Math.floor(i / (columns * rows)) % frames;
  const channel = Math.floor(i / (columns * rows * frames));
  const turns = (column * (1 + (text % 2))) / columns + row / rows + (frame * (1 + (text >> 1))) / frames;
  return Math.SQRT2 * Math.sin(2 * Math.PI * turns + channel + text);
}

function fillNormal(target: Float32Array, random: Random): void {
  for (let i = 0; i < target.length; i++) target[i] = random.normal();
}
