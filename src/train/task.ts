import * as tf from '@tensorflow/tfjs';
import type { Engine } from '../backend/engine';
import { type BatchSource, inputsOf, targetsOf } from '../data/batch';
import type { Module } from '../nn/module';

/** The tensors of one micro-batch; who asked for them disposes them. */
export interface TensorBatch {
  readonly tensors: readonly tf.Tensor[];
  /** What it counts for in speeds: tokens, samples. */
  readonly count: number;
}

/** What is trained: a model, its data and its loss. */
export interface Task {
  readonly model: Module;
  /** The micro-batch of a rank; `index` counts from 0 over the whole run. */
  batch(rank: number, index: number): TensorBatch;
  /** Mean loss over the batch, a float32 scalar. Runs with a recording: the model's forward belongs in it. */
  lossOf(batch: TensorBatch): tf.Tensor;
}

/** A model that takes token ids and their successors and gives their mean cross-entropy. Shapes: ids [B, T], targets [B·T]. */
export function languageModelTask(engine: Engine, model: Module, batches: BatchSource): Task {
  return {
    model,
    batch(rank, index) {
      const tokens = batches.batch(rank, index);
      const { batch, seq } = tokens;
      return engine.tagged({ cause: 'batch', module: '' }, () => ({
        tensors: [
          tf.tensor(inputsOf(tokens), [batch, seq], 'int32'),
          tf.tensor(targetsOf(tokens), [batch * seq], 'int32'),
        ],
        count: batch * seq,
      }));
    },
    lossOf: ({ tensors }) => model.apply(...tensors),
  };
}
