import type { Engine } from '../backend/engine';
import type { DitConfig } from '../config/settings/model';
import * as tf from '../core/tf';
import type { LatentBatch, LatentSource } from '../data/latents';
import { DitExperts } from '../nn/models/dit-experts';
import type { Module } from '../nn/module';
import { floatsOf } from '../nn/spans';
import type { Task, TensorBatch } from './task';

/** A batch of noised videos, with a timestep that says on which side of the boundary all its videos are. */
interface VideoBatch extends TensorBatch {
  readonly timestep: number;
}

/**
 * A model that predicts a noised video's velocity (noise minus video), trained with the mean squared error. It counts
 * patches. Source: Lipman et al. 2022; Wan et al. 2025, section 4.
 */
export function flowMatchingTask(
  engine: Engine,
  model: Module,
  shape: DitConfig,
  source: LatentSource,
): Task<VideoBatch> {
  return {
    model,
    batch: (rank, index) => tensorsOf(engine, shape, source.batch(rank, index)),
    lossOf({ tensors, timestep }) {
      const [latents, timesteps, text, velocity] = tensors as [tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]; // made below
      if (model instanceof DitExperts) model.tell(timestep);
      return tf.mean(tf.square(tf.sub(model.apply(latents, timesteps, text), velocity)));
    },
  };
}

function tensorsOf(engine: Engine, shape: DitConfig, videos: LatentBatch): VideoBatch {
  const { inChannels, outChannels, latent, patch, textLen, textDim } = shape;
  const { batch, timesteps } = videos;
  const made: tf.Tensor[] = [];
  const filled = (extents: readonly number[], fill: (target: Float32Array) => void): void => {
    const tensor = engine.allocate([batch, ...extents], 'float32', { cause: 'batch', module: '' });
    made.push(tensor);
    if (engine.hasValues) fill(floatsOf(engine, { tensor, offset: 0 }, tensor.size));
  };
  try {
    filled([inChannels, ...latent], videos.fillLatents);
    filled([], (target) => target.set(timesteps));
    filled([textLen, textDim], videos.fillText);
    filled([outChannels, ...latent], videos.fillVelocity);
  } catch (error) {
    tf.dispose(made);
    throw error;
  }
  const patches = latent.reduce((product, extent, axis) => product * (extent / (patch[axis] ?? 1)), 1);
  return { tensors: made, count: batch * patches, timestep: timesteps[0] ?? 0 };
}
