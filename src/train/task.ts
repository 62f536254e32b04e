import type * as tf from '../core/tf';
import type { Module } from '../nn/module';

/** The tensors of one micro-batch; the caller disposes them. */
export interface TensorBatch {
  readonly tensors: readonly tf.Tensor[];
  /** Its count in speeds: tokens, samples. */
  readonly count: number;
}

/** A training task: a model, its data and its loss. */
export interface Task<B extends TensorBatch = TensorBatch> {
  readonly model: Module;
  /** The micro-batch of a rank; `index` counts from 0 over the whole run. */
  batch(rank: number, index: number): B;
  /** Mean loss over the batch, a float32 scalar. Runs under a recording: it must contain the model's forward. */
  lossOf(batch: B): tf.Tensor;
}
