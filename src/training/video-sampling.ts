import { ConfigError, seeded } from '../core';
import * as tf from '../core/tf';
import { NUM_TIMESTEPS, VideoModel } from '../nn';
import { fillWord, MovingShapes, sceneOf, tokensOf } from './data/moving-shapes';
import { fillAudio, fillImage } from './data/noised-batches';
import { latentsOfPrompt } from './data/own-video-batches';
import { VideoCoder, videoSize } from './data/video-coder';
import { inputsOf } from './flow-matching';
import type { VideoParts } from './task';

/** Options that say how videos are sampled. */
export interface VideoSampling {
  /** Number of Euler steps from noise to video. */
  readonly steps: number;
  /** Moves steps toward noise: t becomes shift · t / (1 + (shift - 1) t); 1 makes equal steps. Source: Wan2.2's sample_shift. */
  readonly shift: number;
  readonly seed: number;
}

/** Captions of the videos to sample. */
export interface Captions {
  readonly captions: readonly string[];
  /** The captions' token ids; null for moving shapes, whose captions have words of their own. */
  readonly tokens: readonly (readonly number[])[] | null;
}

/** Sampled videos. Shapes: each video is [3, frames, rows, columns], with values from about -1 to 1. */
export interface SampledVideos {
  readonly size: readonly [number, number, number];
  readonly videos: readonly Float32Array[];
}

/** What a model gets for a caption, besides noise. */
interface Condition {
  /** The text's token ids [textLen], 0 for padding. */
  readonly tokens: Int32Array;
  /** The latents whose first frame is the image. */
  readonly latents: Float32Array;
  /** The path from which the audio is made; omitted for silence. */
  readonly track?: Float32Array | undefined;
}

/**
 * Samples a video for each caption: x begins as noise at t = 1, and each step adds the predicted velocity times the change of t,
 * down to t = 0. Each step's timestep chooses its expert. If a model also takes an image or audio, it gets those of a clip that the
 * caption describes; with the user's videos, it gets the first frame of the first video with this text, and silence.
 */
export async function sampleVideos(
  { videos }: { readonly videos?: VideoParts | undefined },
  captions: Captions,
  { steps, shift, seed }: VideoSampling,
  progress: (done: number, total: number) => Promise<void>,
): Promise<SampledVideos> {
  if (videos === undefined) {
    throw new ConfigError(
      "run.sampleVideo needs captions and pixels, which 'synthetic' does not have; train a dit on data: 'moving-shapes' or on videos of your own",
    );
  }
  const { model, shape } = videos;
  const coder = new VideoCoder(shape, 'run.sampleVideo');
  const conditions = conditionsOf(videos, captions, seed);
  const length = conditions[0]?.latents.length ?? 0;
  const x = conditions.map((_, i) => {
    const random = seeded(seed, 'sample', i);
    return Float32Array.from({ length }, () => random.normal());
  });
  const timeAt = (step: number): number => {
    const t = 1 - step / steps;
    return (shift * t) / (1 + (shift - 1) * t);
  };
  for (let step = 0; step < steps; step++) {
    // As in training, a timestep is below 1000.
    const timestep = Math.min(timeAt(step) * NUM_TIMESTEPS, NUM_TIMESTEPS - 1);
    const inputs = inputsAt(videos, conditions, x, timestep);
    try {
      if (model instanceof VideoModel) model.tell(timestep);
      const velocity = tf.tidy(() => (model.apply(...inputs) as tf.Tensor).dataSync());
      const move = timeAt(step + 1) - timeAt(step);
      for (const [i, video] of x.entries())
        for (let j = 0; j < length; j++) video[j] = (video[j] ?? 0) + move * (velocity[i * length + j] ?? 0);
    } finally {
      tf.dispose(inputs);
    }
    await progress(step + 1, steps);
  }
  return { size: videoSize(shape, 'run.sampleVideo'), videos: x.map((latents) => coder.decode(latents)) };
}

/** Makes the model's inputs for the noised videos `x`; the caller disposes them. */
function inputsAt(
  parts: VideoParts,
  conditions: readonly Condition[],
  x: readonly Float32Array[],
  timestep: number,
): tf.Tensor[] {
  const { shape } = parts;
  const each =
    (fill: (target: Float32Array, condition: Condition, i: number) => void) => (target: Float32Array) => {
      const width = target.length / conditions.length;
      for (const [i, condition] of conditions.entries())
        fill(target.subarray(i * width, (i + 1) * width), condition, i);
    };
  return inputsOf(parts, {
    batch: conditions.length,
    timesteps: new Float32Array(conditions.length).fill(timestep),
    tokens: Int32Array.from(conditions.flatMap(({ tokens }) => [...tokens])),
    fillLatents: each((target, condition, i) => {
      target.set(x[i] ?? []);
      fillImage(target.subarray(condition.latents.length), condition, shape.latent);
    }),
    fillText: each((target, { tokens }) => {
      for (const [j, token] of tokens.entries())
        fillWord(token, target.subarray(j * shape.textDim, (j + 1) * shape.textDim));
    }),
    fillAudio: each((target, { track }) => {
      if (track === undefined) target.fill(0);
      else fillAudio(target, { track }, shape.audioDim);
    }),
  });
}

/** Throws: CONFIG for a caption that is not understood, or that has no image. */
function conditionsOf(
  { shape, config, own }: VideoParts,
  { captions, tokens }: Captions,
  seed: number,
): Condition[] {
  if (own === undefined) {
    const shapes = new MovingShapes(shape, config.movingShapes);
    return captions.map((caption, i) => {
      const scene = sceneOf(caption);
      const { latents, track } = shapes.clip(seeded(seed, 'sampled clip', i), scene);
      return { tokens: tokensOf(scene, shape.textLen), latents, track };
    });
  }
  const takesImage = shape.inChannels > shape.outChannels;
  const [f, h, w] = shape.latent;
  return captions.map((caption, i) => {
    const padded = new Int32Array(shape.textLen);
    padded.set(tokens?.[i] ?? []);
    const latents = takesImage
      ? latentsOfPrompt(shape, own, caption)
      : new Float32Array(shape.outChannels * f * h * w);
    if (latents !== undefined) return { tokens: padded, latents };
    throw new ConfigError(
      `"${caption}" is the text of no video of ${own.name}, and this model begins at the first frame of a video; use texts of the videos`,
    );
  });
}
