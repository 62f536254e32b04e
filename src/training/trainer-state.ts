import { modelShape, ownData, type TrainConfig } from '../config';
import type { Warn } from '../core';
import type { GradScalerState, ScheduleState } from '../sharding';
import type { PreparedData } from './data/prepared';

/**
 * The state of a training besides parameters and optimizer states; plain JSON, the same on every rank. It contains no
 * random state, because batches and the noise of gates depend only on the seed and these counts.
 */
export interface TrainerState {
  /** Number of training steps so far. */
  readonly steps: number;
  /** Number of microbatches that each rank has done; it determines the next batches. */
  readonly microBatches: number;
  /** The identity of the data. Older versions of shardlab omit this field. */
  readonly data?: DataMark | undefined;
  /** The identity of the frozen reference model of a training on pairs (`Task.reference`). Omitted if there is none. */
  readonly reference?: string | undefined;
  /** Number of the optimizer's updates; it is less than `steps` if updates were skipped. */
  readonly optimizerSteps: number;
  /** By parameter's name, the number of steps in which the parameter had no gradient. Omitted if there are no such steps. */
  readonly stepsLeftOut?: Readonly<Record<string, number>> | undefined;
  /** The parameters that a delayed update leaves out in the next step. Omitted if there are none. */
  readonly leftOutNext?: readonly string[] | undefined;
  /** The learning rate of the next step. */
  readonly lr: number;
  /** The learning rates of all groups of parameters. Omitted if there is only one group. */
  readonly lrs?: readonly number[] | undefined;
  /** The schedule's state; null if the learning rate is constant. */
  readonly schedule: ScheduleState | null;
  /** The scaler's state; null if the loss is not scaled. */
  readonly scaler: GradScalerState | null;
}

/** The identity of a training's data, which a checkpoint stores. */
export interface DataMark {
  readonly name: string;
  /** A text that identifies the data's values, but not their files' paths; null for built-in data and functions. */
  readonly fingerprint: string | null;
  /** Tokens per row; null if rows have no tokens. */
  readonly seq: number | null;
}

/** Returns a phrase that says how a run's data differ from the data of a checkpoint; null if both are the same. */
function dataDifference(own: DataMark, saved: DataMark): string | null {
  if (own.fingerprint !== saved.fingerprint || (own.fingerprint === null && own.name !== saved.name)) {
    const isNamedSo = own.name === saved.name;
    return isNamedSo
      ? `${own.name} has other contents or another tokenizer`
      : `${own.name} in place of ${saved.name}`;
  }
  return own.seq === saved.seq ? null : `rows of ${own.seq} tokens in place of ${saved.seq}`;
}

/** The options that decide which data a trainer has. */
interface DataOptions {
  readonly config: TrainConfig;
  /** The user's own data. */
  readonly data?: PreparedData | undefined;
  readonly warn?: Warn | undefined;
}

/** Returns the identity of a trainer's data. */
export function dataMark({ config, data }: DataOptions): DataMark {
  const shape = modelShape(config);
  const seq = ownData(config.data)?.seq ?? ('seq' in shape ? shape.seq : null);
  if (data !== undefined) {
    return { name: data.name, fingerprint: data.fingerprint, seq: data.kind === 'rows' ? null : seq };
  }
  return { name: typeof config.data === 'string' ? config.data : 'own data', fingerprint: null, seq };
}

/** Warns if the data with which a checkpoint was saved differ from the trainer's data. */
export function warnOfOtherData(own: DataOptions, saved: DataMark | undefined, microBatches: number): void {
  const difference = saved === undefined ? null : dataDifference(dataMark(own), saved);
  if (difference === null) return;
  own.warn?.(
    `this run has other data than the checkpoint: ${difference}; the run continues with microbatch ${microBatches} of its own data. ` +
      'To begin with the first rows, load only the parameters: run.load(path, { parametersOnly: true })',
  );
}
