import type { Engine } from '../backend/engine';
import type { DitConfig } from '../config/settings/model';
import type { TrainConfig } from '../config/train-config';
import type * as tf from '../core/tf';
import type { UncountedBatches, ValidationBatches } from '../data/batch';
import type { Module } from '../nn/module';
import type { FrozenTextEncoder } from './text-encoder';

/** The tensors of one microbatch; the caller disposes them. */
export interface TensorBatch {
  readonly tensors: readonly tf.Tensor[];
  /** Number of tokens or patches, or of `countedRows`, for speeds. */
  readonly count: number;
  /** Whether `count` is of rows, because the batch has no tokens. Default false. */
  readonly countedRows?: boolean;
  /** The batch's loss is the result of `lossOf`, times this factor. Default 1. */
  readonly factor?: number | undefined;
}

/** A training task: a model, its data and its loss. */
export interface Task<B extends TensorBatch = TensorBatch> {
  readonly model: Module;
  /** Makes a microbatch of a rank; `index` counts from 0 over the whole run, and `first` is the first microbatch of its step. */
  batch(rank: number, index: number, first?: number): B;
  /** The rows that are never trained on; null or undefined: there are none. */
  readonly validation?: ValidationBatches<B> | UncountedBatches<B> | null | undefined;
  /**
   * Returns the mean loss of the batch, a float32 scalar. It is recorded, so it must include the model's forward. `seen` gets the
   * model's output and the batch. Throws: CONFIG if `seen` is given and the model returns no output besides its loss.
   */
  lossOf(batch: B, seen?: OutputSeen): tf.Tensor;
  /** Called when the passes of a batch have ended. */
  end?(): void;
  /** How the stages of a pipeline use a batch. Omitted if the model cannot be cut into stages. */
  readonly stages?: StagedTask<B> | undefined;
  /** What samples of videos need; undefined: the task has no videos that it can draw. */
  readonly videos?: VideoParts | undefined;
  /** Frees what the task has besides the model. */
  dispose?(): void;
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

/** What samples of videos need of a task on moving shapes. */
export interface VideoParts {
  readonly engine: Engine;
  readonly model: Module;
  readonly config: TrainConfig;
  readonly shape: DitConfig;
  /** null: words are fixed vectors. */
  readonly encoder: FrozenTextEncoder | null;
}
