import { ConfigError, classOf } from '../core';
import * as tf from '../core/tf';
import type { Engine } from '../engine';
import type { ProcessGroup } from '../wire';
import { gatherWords } from './checkpoint/state/agreement';
import type { ModelPasses } from './passes';
import { listOfRewards, type OutputSeen, type Rewards, rewardsIn, type Task, type TensorBatch } from './task';

/** A function that long work calls after each part; its promise resolves when the rank has handled its messages. */
export type ReportProgress = (done: number, total: number) => Promise<void>;

/** The result of an evaluation. */
export interface EvaluationResult {
  /** The mean loss of all rows. */
  readonly loss: number;
  /** The number of evaluated rows, summed over ranks. */
  readonly rows: number;
  /** The mean of each metric over all rows, by the metric's name. */
  readonly metrics: Readonly<Record<string, number>>;
  /** The mean rewards of all pairs. Omitted unless the training is DPO. */
  readonly rewards?: Rewards;
  /** Whether rows have no tokens, so that the loss has no perplexity. */
  readonly countedRows: boolean;
}

/** Metrics by name: functions that get the output and the batch, and return a number or a scalar. */
export type Metrics = Readonly<Record<string, (output: unknown, batch: unknown) => unknown>>;

/** Returns the mean loss of a task's validation rows; see `Trainer.evaluate`. */
export async function evaluateTask(
  task: Task,
  {
    engine,
    group,
    passes,
  }: { readonly engine: Engine; readonly group: ProcessGroup; readonly passes: Pick<ModelPasses, 'lossOf'> },
  progress: ReportProgress,
  metrics: Metrics = {},
): Promise<EvaluationResult> {
  const { validation } = task;
  if (validation == null) {
    throw new ConfigError(
      'evaluate needs rows that are never trained on, and this run has none; give them in the config, as data: { path: ' +
        "'./text.txt', validation: 0.1 }, or as data: { train: (scope, index) => …, validation: (scope, index) => … }",
    );
  }
  const { numBatches } = validation;
  let [rows, countedRows] = [0, false];
  const numMetrics = Object.keys(metrics).length;
  const numRewards = task.measured === undefined ? 0 : listOfRewards(task.measured()).length;
  let sums = new Array<number>(1 + numMetrics + numRewards).fill(0); // of the loss, of each metric, of rewards
  let isLast = false;
  for (let index = 0; !isLast && (numBatches === null || index < numBatches); index++) {
    const { batch, counted } = validation.batch(group.rank, index);
    countedRows ||= batch.countedRows ?? false;
    try {
      if (numBatches === null) {
        const has = Int32Array.of(counted > 0 ? 1 : 0);
        const flags = gatherWords({ engine, group }, has, [1], 'run.evaluate()');
        const numRanks = flags.reduce((a, b) => a + b, 0);
        if (counted > 0 && group.rank >= numRanks) throw gapBefore(group.rank + index * group.size);
        if (numRanks === 0) break;
        isLast = numRanks < group.size;
      }
      rows += counted;
      const [loss = Number.NaN, ...means] = valuesOf(passes, batch, metrics);
      const rewards = task.measured === undefined ? [] : listOfRewards(task.measured());
      const values = [loss * (batch.factor ?? 1), ...means, ...rewards];
      // A rank that has no row left still runs a batch, because other ranks need its collectives.
      if (counted > 0) sums = sums.map((sum, i) => sum + (values[i] ?? Number.NaN) * counted);
    } finally {
      tf.dispose([...batch.tensors]);
      task.end?.();
    }
    // If a function makes the batches, their number is not known, and 0 is reported.
    await progress(index + 1, numBatches ?? 0);
  }
  // Sums are sent as float64, because float32 sums of many losses would differ from a single process's in the seventh digit.
  const words = new Int32Array(Float64Array.of(rows, ...sums).buffer);
  const all = new Float64Array(
    gatherWords({ engine, group }, words, [words.length], 'run.evaluate()').buffer,
  );
  const width = sums.length + 1;
  const total = (part: number): number => all.reduce((a, b, i) => (i % width === part ? a + b : a), 0);
  const mean = (part: number): number => total(part) / total(0);
  const means = Object.keys(metrics).map((name, i) => [name, mean(i + 2)] as const);
  const rewards = Array.from({ length: numRewards }, (_, i) => mean(i + 2 + numMetrics));
  return {
    ...{ loss: mean(1), rows: total(0), metrics: Object.fromEntries(means), countedRows },
    ...(numRewards > 0 && { rewards: rewardsIn(rewards) }),
  };
}

/** Returns the loss of a batch, then each metric. */
function valuesOf(passes: Pick<ModelPasses, 'lossOf'>, batch: TensorBatch, metrics: Metrics): number[] {
  return tf.tidy(() => {
    const values: number[] = [];
    const measure: OutputSeen = (output, seen) => {
      for (const [name, metric] of Object.entries(metrics)) values.push(numberOf(name, metric(output, seen)));
    };
    const loss = passes.lossOf(batch, Object.keys(metrics).length === 0 ? undefined : measure);
    return [loss, ...values];
  });
}

function numberOf(name: string, value: unknown): number {
  if (typeof value === 'number') return value;
  if (value instanceof tf.Tensor && value.size === 1) return value.dataSync()[0] ?? Number.NaN;
  if (value instanceof Promise) value.catch(() => undefined);
  const description = value instanceof tf.Tensor ? `a tensor [${value.shape.join(', ')}]` : classOf(value);
  throw new ConfigError(
    `run.evaluate: metrics.${name} returned ${description}; return a number or a scalar, such as the mean over the batch's rows`,
  );
}

function gapBefore(index: number): ConfigError {
  return new ConfigError(
    `data.validation returned a batch for index ${index}, but none for an earlier index; return undefined only for the ` +
      'indices after the last batch, as index >= 5 ? undefined : { x, y }',
  );
}
