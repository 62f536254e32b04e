import * as tf from '../../core/tf';
import { gradients } from '../../engine';
import type { Module } from '../../nn';
import { clipGradNorm } from '../optim/clip-grad-norm';
import type { Optimizer } from '../optim/optimizer';
import type { RankContext } from '../run-as-unit';

/** One microbatch of a rank. Shapes: ids [B, T] int32, targets [B·T] int32. */
export interface NaiveBatch {
  readonly ids: tf.Tensor;
  readonly targets: tf.Tensor;
}

/** The training of a model whose forward returns the loss. */
export interface NaiveTraining {
  readonly model: Module;
  readonly optimizer: Optimizer;
  /** Returns a microbatch; `index` counts from 0 over the whole training. The loop disposes the batch. */
  batch(index: number): NaiveBatch;
  /** The number of microbatches per step. Default 1. */
  readonly accumulation?: number;
  /** The largest norm of all gradients together; default: not limited. */
  readonly clipNorm?: number | null;
}

/** The result of a step. */
export interface NaiveStep {
  /** The mean loss over the microbatches of all ranks. */
  readonly loss: number;
  /** The norm of all gradients together, before clipping. */
  readonly gradNorm: number;
}

/**
 * Trains in the simplest way, and yields after each step: `for (const { loss } of naiveTrain(training, context))`. The strategy
 * (DDP, FSDP, a naive form) is in the model: its hooks communicate in forward and backward. All ranks call this function.
 *
 * The real loop (training/trainer.ts) also has learning rate schedules, loss scaling, evaluation, validation data, other losses,
 * pipelines, recovery from interrupts, and times of its parts.
 */
export function* naiveTrain(training: NaiveTraining, { engine, group }: RankContext): Generator<NaiveStep> {
  const { model, optimizer, batch, accumulation = 1, clipNorm = null } = training;
  for (let step = 0; ; step++) {
    // 1. Gradients of the mean loss: each microbatch adds its share.
    optimizer.zeroGrad();
    let loss = 0;
    for (let micro = 0; micro < accumulation; micro++) {
      const { ids, targets } = batch(step * accumulation + micro);
      const pass = gradients(engine, () => model.apply(ids, targets) as tf.Tensor); // the model's forward returns the loss
      pass.backward(1 / accumulation);
      loss += (pass.loss.dataSync()[0] ?? Number.NaN) / accumulation;
      tf.dispose([ids, targets, pass.loss]);
    }

    // 2. The optimizer multiplies the gradients by `scale`, which is below 1 if their norm exceeds clipNorm.
    const { norm, scale } = clipGradNorm(engine, model, clipNorm);
    optimizer.step(scale);

    // 3. Each rank has the loss of its own batch.
    const mean = tf.tensor1d([loss]);
    group.allReduce(mean, 'avg', { cause: 'loss' }).wait();
    loss = mean.dataSync()[0] ?? Number.NaN;
    mean.dispose();
    yield { loss, gradNorm: norm };
  }
}
