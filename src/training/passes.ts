import * as tf from '../core/tf';
import { type Engine, gradients } from '../engine';
import type { Module } from '../nn';
import type { HasStates, ParallelModel } from '../sharding';
import type { Stopwatch } from './stopwatch';
import type { OutputSeen, Task, TensorBatch } from './task';

/** Says how a pass uses its gradients. */
export interface PassUse {
  /** The factor by which gradients are multiplied: 1 / accumulation, times the scale of a GradScaler. */
  readonly scale: number;
  /** Whether this is the last pass before the optimizer's update. */
  readonly isLast: boolean;
}

/** Runs the passes of a whole model, or of this rank's stages of a model. */
export interface ModelPasses extends Pick<ParallelModel, 'accumulate' | 'abandon' | 'dispose'> {
  /** The parameters and their states, which the optimizer updates. */
  readonly trained: HasStates;
  /**
   * Runs forward and backward of a batch; adds to existing gradients. Returns the mean loss; ranks without the loss return NaN.
   */
  run(batch: TensorBatch, use: PassUse, watch: Stopwatch): number;
  /** Sends a value from the ranks that have the loss to all ranks, and returns it on every rank. */
  shared(value: number, cause: 'loss' | 'control'): number;
  /** Returns the mean loss of a batch on every rank, without gradients. */
  lossOf(batch: TensorBatch, seen?: OutputSeen): number;
  /** Returns the model's output for one input; null on a rank that does not have the output. */
  outputOf(input: tf.Tensor): unknown;
  /** Sets whether the model trains or is evaluated. */
  train(mode: boolean): void;
}

/** Makes the passes of a model that is whole on every rank, or divided within its layers. */
export function wholePasses(
  engine: Engine,
  model: Module,
  task: Pick<Task, 'lossOf' | 'prepare' | 'abandon'>,
  { accumulate, abandon, dispose }: ParallelModel,
): ModelPasses {
  return {
    ...{ accumulate, dispose, trained: model },
    abandon() {
      abandon();
      task.abandon?.();
    },
    run(batch, { scale }, watch) {
      const pass = watch.sum('forward', () => {
        task.prepare?.(batch);
        return gradients(engine, () => task.lossOf(batch));
      });
      try {
        const loss = pass.loss.dataSync()[0] ?? Number.NaN;
        watch.sum('backward', () => pass.backward(scale));
        return loss;
      } finally {
        pass.loss.dispose();
      }
    },
    shared: (value) => value,
    lossOf(batch, seen) {
      task.prepare?.(batch);
      return tf.tidy(() => task.lossOf(batch, seen).dataSync()[0] ?? Number.NaN);
    },
    outputOf: (input) => model.apply(input),
    train: (mode) => void model.train(mode),
  };
}
