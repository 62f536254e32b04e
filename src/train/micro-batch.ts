import { gradients } from '../autograd/unit';
import type { Engine } from '../backend/engine';
import * as tf from '../core/tf';
import type { Stopwatch } from './stopwatch';
import type { Task } from './task';

/** The parts that a micro-batch needs. */
export interface MicroBatchOptions {
  readonly engine: Engine;
  readonly task: Task;
  readonly watch: Stopwatch;
  readonly rank: number;
  /** Counts from 0 over the whole run. */
  readonly index: number;
  /** Factor on the loss in backward: its share of the step's mean, times a scaler's scale. */
  readonly seed: number;
}

/** The result of a micro-batch on this rank. */
export interface MicroBatch {
  readonly loss: number;
  readonly count: number;
}

/** Forward and backward of one micro-batch; adds to existing gradients. */
export function runMicroBatch(options: MicroBatchOptions): MicroBatch {
  const { engine, task, watch, rank, index, seed } = options;
  const batch = watch.span('data', () => task.batch(rank, index));
  try {
    const pass = watch.sum('forward', () => gradients(engine, () => task.lossOf(batch)));
    try {
      const loss = pass.loss.dataSync()[0] ?? Number.NaN;
      watch.sum('backward', () => pass.backward(seed));
      return { loss, count: batch.count };
    } finally {
      pass.loss.dispose();
    }
  } finally {
    tf.dispose([...batch.tensors]);
  }
}
