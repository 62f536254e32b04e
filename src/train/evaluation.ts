import type { Engine } from '../backend/engine';
import { ConfigError } from '../core/errors';
import * as tf from '../core/tf';
import type { ProcessGroup } from '../dist/types';
import { overRanks } from './over-ranks';
import type { Task } from './task';

/** Called after a part of long work; it resolves when messages have been handled. */
export type Progress = (done: number, total: number) => Promise<void>;

/** The result of an evaluation. */
export interface Evaluated {
  /** Mean over all rows. */
  readonly loss: number;
  /** Number of rows of all ranks. */
  readonly rows: number;
}

/** Returns the mean loss of a task's validation rows; `Trainer.evaluate` says how. */
export async function evaluateTask(
  task: Task,
  { engine, group }: { readonly engine: Engine; readonly group: ProcessGroup },
  progress: Progress,
): Promise<Evaluated> {
  const { validation } = task;
  if (validation == null) {
    throw new ConfigError(
      'evaluate needs rows that are never trained on, and this run has none; give them in the config, as data: { path: ' +
        "'./text.txt', validation: 0.1 }",
    );
  }
  let sum = 0;
  for (let index = 0; index < validation.numBatches; index++) {
    const { batch, counted } = validation.batch(group.rank, index);
    try {
      const loss = tf.tidy(() => task.lossOf(batch));
      // A rank without a row left still runs a batch, because other ranks need its collectives.
      if (counted > 0) sum += (loss.dataSync()[0] ?? Number.NaN) * counted;
      loss.dispose();
    } finally {
      tf.dispose([...batch.tensors]);
    }
    await progress(index + 1, validation.numBatches);
  }
  return { loss: overRanks(engine, group, sum, 'sum') / validation.numRows, rows: validation.numRows };
}
