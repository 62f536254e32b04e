import { gradients } from '../autograd/unit';
import type { Engine } from '../backend/engine';
import * as tf from '../core/tf';
import type { Module } from '../nn/module';
import type { HasStates } from '../optim/optimizer';
import type { ParallelModel } from '../parallel/parallelize';
import type { Stopwatch } from './stopwatch';
import type { OutputSeen, Task, TensorBatch } from './task';

/** How the gradients of a pass are used. */
export interface PassUse {
  /** The factor by which gradients are multiplied: 1 / accumulation, times the scale of a scaler. */
  readonly scale: number;
  /** Whether the optimizer's step is next. */
  readonly isLast: boolean;
}

/** Runs the passes of a model, or of this rank's stages of it. */
export interface ModelPasses extends Pick<ParallelModel, 'accumulate' | 'abandon' | 'dispose'> {
  /** What the optimizer updates. */
  readonly trained: HasStates;
  /**
   * Runs forward and backward of a batch; adds to existing gradients. Returns the mean loss; ranks without the loss return NaN.
   */
  run(batch: TensorBatch, use: PassUse, watch: Stopwatch): number;
  /** Returns, on every rank, the value of the ranks that have the loss. */
  shared(value: number, cause: 'loss' | 'control'): number;
  /** Returns the mean loss of a batch on every rank, without gradients. */
  lossOf(batch: TensorBatch, seen?: OutputSeen): number;
  /** Returns the output for one input; null on ranks without the output. */
  outputOf(input: tf.Tensor): unknown;
  /** Sets whether the model trains or is evaluated. */
  train(mode: boolean): void;
}

/** Makes the passes of a model that is whole on every rank, or divided within its layers. */
export function wholePasses(
  engine: Engine,
  model: Module,
  task: Pick<Task, 'lossOf'>,
  { accumulate, abandon, dispose }: ParallelModel,
): ModelPasses {
  return {
    ...{ accumulate, abandon, dispose, trained: model },
    run(batch, { scale }, watch) {
      const pass = watch.sum('forward', () => gradients(engine, () => task.lossOf(batch)));
      try {
        const loss = pass.loss.dataSync()[0] ?? Number.NaN;
        watch.sum('backward', () => pass.backward(scale));
        return loss;
      } finally {
        pass.loss.dispose();
      }
    },
    shared: (value) => value,
    lossOf: (batch, seen) => tf.tidy(() => task.lossOf(batch, seen).dataSync()[0] ?? Number.NaN),
    outputOf: (input) => model.apply(input),
    train: (mode) => void model.train(mode),
  };
}
