import type { Engine } from '../backend/engine';
import { functionsMissing } from '../config/functions-missing';
import { type DitConfig, modelShape, positionsOf } from '../config/settings/model';
import type { TrainConfig } from '../config/train-config';
import { ConfigError } from '../core/errors';
import * as tf from '../core/tf';
import {
  type BatchSource,
  inputsOf,
  type TokenBatch,
  targetsOf,
  type UncountedBatches,
  type ValidationBatches,
} from '../data/batch';
import { createBatches, type DataPlace } from '../data/batches';
import { type LatentBatch, type LatentSource, syntheticLatents } from '../data/latents';
import { DitExperts } from '../nn/models/dit-experts';
import type { Module } from '../nn/module';
import { floatsOf } from '../nn/spans';

/** The tensors of one microbatch; the caller disposes them. */
export interface TensorBatch {
  readonly tensors: readonly tf.Tensor[];
  /** Number of tokens or patches, or of `countedRows`, for speeds. */
  readonly count: number;
  /** Whether `count` is of rows, because the batch has no tokens. Default false. */
  readonly countedRows?: boolean;
}

/** A training task: a model, its data and its loss. */
export interface Task<B extends TensorBatch = TensorBatch> {
  readonly model: Module;
  /** Makes a microbatch of a rank; `index` counts from 0 over the whole run. */
  batch(rank: number, index: number): B;
  /** The rows that are never trained on; null or undefined: there are none. */
  readonly validation?: ValidationBatches<B> | UncountedBatches<B> | null | undefined;
  /**
   * Returns the mean loss of the batch, a float32 scalar. It is recorded, so it must include the model's forward. `seen` gets the
   * model's output and the batch. Throws: CONFIG if `seen` is given and the model returns no output besides its loss.
   */
  lossOf(batch: B, seen?: OutputSeen): tf.Tensor;
  /** How the stages of a pipeline use a batch. Omitted if the model cannot be cut into stages. */
  readonly stages?: StagedTask<B> | undefined;
}

/** What the first and the last stage of a pipeline read. */
export interface StagedTask<B extends TensorBatch = TensorBatch> {
  /** Returns the first stage's input, and what the loss reads: tensors in lists and objects, whose rows are divided. */
  inputsOf(batch: B): { readonly x: tf.Tensor; readonly target: unknown };
  /** Returns the mean loss of the last stage's output; omitted if that stage computes the model's own. */
  readonly lossOf?: ((output: tf.Tensor, target: unknown) => tf.Tensor) | undefined;
}

/** Gets a model's output, and the batch as functions of the user's get it. */
export type OutputSeen = (output: unknown, batch: unknown) => void;

/** Batches that replace those of a config's data, or the place of the config's data. */
export type TaskData = BatchSource | DataPlace;

/**
 * Makes the task of a config.
 * Throws: CONFIG for a model without a loss, and for data that do not fit to the model.
 */
export function taskOf(engine: Engine, model: Module, config: TrainConfig, data: TaskData): Task {
  if (config.loss === 'function') throw functionsMissing('loss');
  const shape = modelShape(config);
  switch (shape.kind) {
    case 'gpt':
    case 'moe':
    case 'llama':
      return languageModelTask(engine, model, 'batch' in data ? data : createBatches(config, data));
    case 'dit':
      return flowMatchingTask(engine, model, shape, syntheticLatents({ ...config, shape }));
    case 't5-encoder':
      throw new ConfigError(
        "model.kind: 't5-encoder' has no loss: it is a text encoder, which Wan2.2 uses but does not train; " +
          'plan it, or call nn.t5Encoder({ … }) in a cell',
      );
    case 'own':
      throw functionsMissing('model');
    default:
      return shape satisfies never;
  }
}

/** The task of a model that returns the mean cross-entropy of token ids and next tokens. Shapes: ids [B, T], targets [B·T]. */
function languageModelTask(engine: Engine, model: Module, batches: BatchSource): Task {
  const tensorsOf = (tokens: TokenBatch): TensorBatch => {
    const { batch, seq } = tokens;
    return engine.tagged({ cause: 'batch', module: '' }, () => ({
      tensors: [
        tf.tensor(inputsOf(tokens), [batch, seq], 'int32'),
        tf.tensor(targetsOf(tokens), [batch * seq], 'int32'),
      ],
      count: batch * seq,
    }));
  };
  const { validation } = batches;
  return {
    model,
    batch: (rank, index) => tensorsOf(batches.batch(rank, index)),
    validation: validation && {
      ...validation,
      batch(rank, index) {
        const { batch, counted } = validation.batch(rank, index);
        return { batch: tensorsOf(batch), counted };
      },
    },
    lossOf({ tensors }, seen) {
      const [x, targets] = tensors as [tf.Tensor, tf.Tensor]; // as tensorsOf makes them
      seen?.(model.apply(x), { x, y: tf.reshape(targets, x.shape) });
      return model.apply(x, targets);
    },
    stages: { inputsOf: ({ tensors: [x, target] }) => ({ x: x as tf.Tensor, target }) }, // as tensorsOf makes them
  };
}

/** A batch of noised videos; all of them are on the same side of the boundary as `timestep`. */
interface VideoBatch extends TensorBatch {
  readonly timestep: number;
}

/**
 * The task of a model that predicts a noised video's velocity (noise minus video), with the mean squared error. Its `count`
 * is patches. Source: Lipman et al. 2022; Wan et al. 2025, section 4.
 */
function flowMatchingTask(
  engine: Engine,
  model: Module,
  shape: DitConfig,
  source: LatentSource,
): Task<VideoBatch> {
  return {
    model,
    batch: (rank, index) => tensorsOf(engine, shape, source.batch(rank, index)),
    lossOf({ tensors, timestep }, seen) {
      const [latents, timesteps, text, velocity] = tensors as [tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]; // as tensorsOf makes them
      if (model instanceof DitExperts) model.tell(timestep);
      const output = model.apply(latents, timesteps, text);
      seen?.(output, { inputs: [latents, timesteps, text], y: velocity });
      return tf.mean(tf.square(tf.sub(output, velocity)));
    },
  };
}

function tensorsOf(engine: Engine, shape: DitConfig, videos: LatentBatch): VideoBatch {
  const { inChannels, outChannels, latent, textLen, textDim } = shape;
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
  return { tensors: made, count: batch * positionsOf(shape), timestep: timesteps[0] ?? 0 };
}
