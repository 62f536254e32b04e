import { ownData, positionsOf } from '../config';
import { ShardlabError } from '../core';
import * as tf from '../core/tf';
import type { Engine } from '../engine';
import { floatsOf, type Module, VideoModel } from '../nn';
import type { RankContext } from '../sharding';
import type { LatentBatch } from './data/latents';
import { inputParts, type VideoPart, type VideoSettings, velocityPart, videosOf } from './data/video-batches';
import type { Task, TensorBatch, VideoParts } from './task';
import { FrozenTextEncoder } from './text-encoder';

/** A batch of noised videos. The timesteps of all videos are on the same side of the experts' boundary as `timestep`. */
interface VideoBatch extends TensorBatch {
  readonly timestep: number;
}

/** The parts of a task that `inputsOf` needs. */
type FlowParts = Pick<VideoParts, 'engine' | 'shape' | 'encoder'>;

/**
 * The task of a model that predicts a noised video's velocity (noise minus video), with the mean squared error. The `count` of
 * its batches is the number of patches. Source: Lipman et al. 2022; Wan et al. 2025, section 4.
 */
export function flowMatchingTask(
  context: RankContext,
  model: Module,
  settings: VideoSettings,
): Task<VideoBatch> {
  const { config, shape, prepared } = settings;
  const { textEncoder } = config;
  const encoder = textEncoder === null ? null : new FrozenTextEncoder({ ...config, textEncoder }, context);
  const parts = { engine: context.engine, shape, encoder };
  // A dry run has shapes only, so it reads no files.
  if (ownData(config.data) !== null && prepared === undefined && context.engine.hasValues)
    throw new ShardlabError('INTERNAL', 'the videos were not prepared');
  const source = videosOf(settings);
  const own = prepared?.kind === 'videos' ? prepared : undefined;
  const canDraw = own !== undefined || config.data === 'moving-shapes';
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
      const [velocity, ...inputs] = tensors as [tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor, ...tf.Tensor[]]; // tensorsOf's order
      if (model instanceof VideoModel) model.tell(timestep);
      const output = model.apply(...inputs);
      seen?.(output, { inputs, y: velocity });
      return tf.mean(tf.square(tf.sub(output, velocity)));
    },
    videos: canDraw ? { ...parts, model, config, own } : undefined,
    dispose: () => encoder?.dispose(),
  };
}

function tensorsOf({ engine, shape, encoder }: FlowParts, videos: LatentBatch): VideoBatch {
  const { batch, timesteps } = videos;
  const made: tf.Tensor[] = [];
  try {
    made.push(filled(engine, batch, velocityPart(shape, videos)));
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
  videos: Omit<LatentBatch, 'fillVelocity'>,
): tf.Tensor[] {
  const { batch, tokens } = videos;
  const { latents, timesteps, text, audio } = inputParts(shape, videos);
  const made: tf.Tensor[] = [];
  try {
    made.push(filled(engine, batch, latents));
    made.push(filled(engine, batch, timesteps));
    made.push(
      encoder !== null && tokens !== null ? encoder.encode(tokens, batch) : filled(engine, batch, text),
    );
    if (audio !== undefined) made.push(filled(engine, batch, audio));
    return made;
  } catch (error) {
    tf.dispose(made);
    throw error;
  }
}

function filled(engine: Engine, batch: number, { shape, fill }: VideoPart): tf.Tensor {
  const tensor = engine.allocate([batch, ...shape], 'float32', { cause: 'batch', module: '' });
  if (engine.hasValues) fill(floatsOf(engine, { tensor, offset: 0 }, tensor.size));
  return tensor;
}
