import type { Engine } from '../backend/engine';
import { type DitConfig, positionsOf } from '../config/settings/model';
import { encoderShape } from '../config/settings/videos';
import type { TrainConfig } from '../config/train-config';
import * as tf from '../core/tf';
import { type LatentBatch, type LatentSource, syntheticLatents } from '../data/latents';
import { movingShapeBatches } from '../data/moving-shape-batches';
import { DitExperts } from '../nn/models/dit-experts';
import type { Module } from '../nn/module';
import { floatsOf } from '../nn/spans';
import type { RankContext } from '../parallel/run-as-unit';
import type { Task, TensorBatch, VideoParts } from './task';
import { FrozenTextEncoder } from './text-encoder';

/** A batch of noised videos; all of them are on the same side of the boundary as `timestep`. */
interface VideoBatch extends TensorBatch {
  readonly timestep: number;
}

/** The parts that make a model's inputs. */
type FlowParts = Pick<VideoParts, 'engine' | 'shape' | 'encoder'>;

/** A config, its model's shape, and the number of data-parallel ranks. */
interface VideoSettings {
  readonly config: TrainConfig;
  readonly shape: DitConfig;
  readonly world: number;
}

/**
 * The task of a model that predicts a noised video's velocity (noise minus video), with the mean squared error. Its `count`
 * is patches. Source: Lipman et al. 2022; Wan et al. 2025, section 4.
 */
export function flowMatchingTask(
  context: RankContext,
  model: Module,
  settings: VideoSettings,
): Task<VideoBatch> {
  const { config, shape } = settings;
  const { textEncoder } = config;
  const encoder = textEncoder === null ? null : new FrozenTextEncoder({ ...config, textEncoder }, context);
  const parts = { engine: context.engine, shape, encoder };
  const source = videosOf(settings);
  const { validation } = source;
  return {
    model,
    batch: (rank, index) => tensorsOf(parts, source.batch(rank, index)),
    validation: validation && {
      ...validation,
      batch(rank, index) {
        const { batch, counted } = validation.batch(rank, index);
        return { batch: tensorsOf(parts, batch), counted };
      },
    },
    lossOf({ tensors, timestep }, seen) {
      const [velocity, ...inputs] = tensors as [tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor, ...tf.Tensor[]]; // as tensorsOf makes them
      if (model instanceof DitExperts) model.tell(timestep);
      const output = model.apply(...inputs);
      seen?.(output, { inputs, y: velocity });
      return tf.mean(tf.square(tf.sub(output, velocity)));
    },
    videos: config.data === 'moving-shapes' ? { ...parts, model, config } : undefined,
    dispose: () => encoder?.dispose(),
  };
}

function videosOf({ config, shape, world }: VideoSettings): LatentSource {
  const { textEncoder } = config;
  return config.data === 'moving-shapes'
    ? movingShapeBatches({ ...config, shape, world })
    : syntheticLatents({ ...config, shape, vocab: textEncoder && encoderShape(textEncoder).vocab });
}

function tensorsOf({ engine, shape, encoder }: FlowParts, videos: LatentBatch): VideoBatch {
  const { outChannels, latent } = shape;
  const { batch, timesteps } = videos;
  const made: tf.Tensor[] = [];
  try {
    made.push(filled(engine, [batch, outChannels, ...latent], videos.fillVelocity));
    made.push(...inputsOf({ engine, shape, encoder }, videos));
  } catch (error) {
    tf.dispose(made);
    throw error;
  }
  return { tensors: made, count: batch * positionsOf(shape), timestep: timesteps[0] ?? 0 };
}

/** Makes a model's inputs: latents, timesteps, text and, if the model attends to audio, the audio. The caller disposes them. */
export function inputsOf(
  { engine, shape, encoder }: FlowParts,
  { batch, timesteps, tokens, ...videos }: Omit<LatentBatch, 'fillVelocity'>,
): tf.Tensor[] {
  const { inChannels, latent, textLen, textDim, audioLayers, audioDim } = shape;
  const made: tf.Tensor[] = [];
  try {
    made.push(filled(engine, [batch, inChannels, ...latent], videos.fillLatents));
    made.push(filled(engine, [batch], (target) => target.set(timesteps)));
    made.push(
      encoder !== null && tokens !== null
        ? encoder.encode(tokens, batch)
        : filled(engine, [batch, textLen, textDim], videos.fillText),
    );
    if (audioLayers.length > 0) made.push(filled(engine, [batch, latent[0], audioDim], videos.fillAudio));
    return made;
  } catch (error) {
    tf.dispose(made);
    throw error;
  }
}

function filled(engine: Engine, extents: readonly number[], fill: (target: Float32Array) => void): tf.Tensor {
  const tensor = engine.allocate([...extents], 'float32', { cause: 'batch', module: '' });
  if (engine.hasValues) fill(floatsOf(engine, { tensor, offset: 0 }, tensor.size));
  return tensor;
}
