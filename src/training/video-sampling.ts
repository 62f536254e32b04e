import { ConfigError, seeded } from '../core';
import * as tf from '../core/tf';
import { NUM_TIMESTEPS, VideoModel } from '../nn';
import { fillAudio, fillImage } from './data/moving-shape-batches';
import { fillWord, MovingShapes, sceneOf, tokensOf } from './data/moving-shapes';
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

/** Sampled videos. Shapes: each video is [3, frames, rows, columns], with values from about -1 to 1. */
export interface SampledVideos {
  readonly size: readonly [number, number, number];
  readonly videos: readonly Float32Array[];
}

/**
 * Samples a video for each caption: x begins as noise at t = 1, and each step adds the predicted velocity times the change of t,
 * down to t = 0. Each step's timestep chooses its expert. If a model also takes an image or audio, it gets the image or audio of
 * a clip that the caption describes.
 */
export async function sampleVideos(
  { videos }: { readonly videos?: VideoParts | undefined },
  captions: readonly string[],
  { steps, shift, seed }: VideoSampling,
  progress: (done: number, total: number) => Promise<void>,
): Promise<SampledVideos> {
  if (videos === undefined) {
    throw new ConfigError(
      "run.sampleVideo knows the captions and pixels of moving shapes only; train a dit on data: 'moving-shapes'",
    );
  }
  const { engine, model, config, shape, encoder } = videos;
  const shapes = new MovingShapes(shape, config.movingShapes);
  const scenes = captions.map(sceneOf);
  const clips = scenes.map((scene, i) => shapes.clip(seeded(seed, 'sampled clip', i), scene));
  const length = clips[0]?.latents.length ?? 0;
  const x = captions.map((_, i) => {
    const random = seeded(seed, 'sample', i);
    return Float32Array.from({ length }, () => random.normal());
  });
  const tokens = scenes.map((scene) => tokensOf(scene, shape.textLen));
  const each = (fill: (target: Float32Array, i: number) => void) => (target: Float32Array) => {
    const width = target.length / captions.length;
    for (let i = 0; i < captions.length; i++) fill(target.subarray(i * width, (i + 1) * width), i);
  };
  const fills = {
    fillLatents: each((target, i) => {
      target.set(x[i] ?? []);
      fillImage(target.subarray(length), clips[i] ?? { latents: target }, shape.latent);
    }),
    fillText: each((target, i) => {
      for (const [j, token] of tokens[i]?.entries() ?? [])
        fillWord(token, target.subarray(j * shape.textDim, (j + 1) * shape.textDim));
    }),
    fillAudio: each((target, i) => fillAudio(target, clips[i] ?? { track: target }, shape.audioDim)),
  };
  const timeAt = (step: number): number => {
    const t = 1 - step / steps;
    return (shift * t) / (1 + (shift - 1) * t);
  };
  for (let step = 0; step < steps; step++) {
    // As in training, a timestep is below 1000.
    const timestep = Math.min(timeAt(step) * NUM_TIMESTEPS, NUM_TIMESTEPS - 1);
    const timesteps = new Float32Array(captions.length).fill(timestep);
    const batch = {
      batch: captions.length,
      timesteps,
      tokens: Int32Array.from(tokens.flatMap((row) => [...row])),
      ...fills,
    };
    const inputs = inputsOf({ engine, shape, encoder }, batch);
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
  return { size: shapes.size, videos: x.map((latents) => shapes.decode(latents)) };
}
