import type { GradScalerConfig } from '../../config';
import type { AnswerLabels, TrainerState } from '../../training';

/** The values from which a rank of PyTorch builds a model, in addition to the config. */
export interface TorchModel {
  /** The model's sizes, with all defaults. */
  readonly shape: unknown;
  readonly framework: TorchFramework;
  /** The backend of torch.compile; undefined: nothing is compiled. */
  readonly compile?: string | undefined;
  /** The names of the layers that have adapters; undefined without `lora`. */
  readonly adapted?: readonly string[] | undefined;
  /** The sizes of the text encoder beside the model, the folder with its values, and whether it is sharded. */
  readonly textEncoder?:
    | { readonly shape: unknown; readonly folder: string; readonly fsdp: boolean }
    | undefined;
  /** The settings of the scaler of losses; undefined: losses are not scaled. */
  readonly scaler?: GradScalerConfig | undefined;
  /** Per group of `optimizer.groups`, the names of its parameters; undefined if ranks find them by the config. */
  readonly groups?: readonly (readonly string[])[] | undefined;
  /** The text of the Python file that defines the model. */
  readonly source?: string | undefined;
}

/** The libraries that shard a model on PyTorch: fully_shard, FullyShardedDataParallel, or DeepSpeed. */
export const TORCH_FRAMEWORKS = ['fsdp2', 'fsdp1', 'deepspeed'] as const;
export type TorchFramework = (typeof TORCH_FRAMEWORKS)[number];

/** The part of a checkpoint of a run on PyTorch that only the launcher knows. */
export type TorchState = Pick<TrainerState, 'data' | 'schedule'>;

/** A PyTorch rank's request for microbatches; the launcher makes these microbatches. */
export interface BatchesNeeded {
  readonly run: number;
  readonly what: 'train' | 'validation';
  /** The data-parallel rank that gets the microbatches. */
  readonly rank: number;
  /** Number of the first microbatch, from 0 over the whole run or over the validation rows. */
  readonly first: number;
  readonly count: number;
  /** The number of steps so far whose update was skipped; the schedule of learning rates does not count them. Default 0. */
  readonly skipped?: number;
}

/** Values of k microbatches. */
export interface MadeTensor {
  /** [k, batch, …]. */
  readonly shape: readonly number[];
  readonly values: Int32Array | Float32Array;
}

/**
 * Microbatches. Text has token ids [k, batch, seq + 1]. Instructions also have labels [k, batch, seq]. Videos have the
 * velocity and the model's inputs. See [Note: batches for Python ranks] in torch/batches.ts.
 */
export interface BatchesMade {
  readonly run: number;
  readonly first: number;
  readonly tensors: readonly MadeTensor[];
  /** Only for instructions: the lengths of the documents in packed rows, and the factor of each microbatch's loss. */
  readonly answers?: {
    readonly documents: readonly NonNullable<AnswerLabels['documents']>[] | null;
    readonly factors: readonly number[];
  };
  /** For each step that begins in these microbatches, the learning rates of all groups. */
  readonly lrs: readonly (readonly number[])[];
  /** Only for validation rows: how many rows of each microbatch count in the mean, and whether these are the last rows. */
  readonly counts?: readonly number[];
  readonly last?: boolean;
}

/** Declares variables, which cells and functions see. `coded`: [Note: sent values], for ranks of Python [Note: values in Python]. */
export interface PutWork {
  readonly kind: 'put';
  readonly coded: Uint8Array;
}

/** Runs Python in a rank of PyTorch; the values in `coded` become variables first. `cell`: it is a cell's code. */
export interface PythonWork {
  readonly kind: 'python';
  readonly source: string;
  readonly cell: number | undefined;
  readonly coded?: Uint8Array | undefined;
}
