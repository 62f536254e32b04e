import type { AnswerLabels } from '../../data/batch';
import type { TrainerState } from '../../train/trainer-state';

/** What a rank of PyTorch needs to build a model besides its config. */
export interface TorchModel {
  /** The model's sizes, with all defaults. */
  readonly shape: unknown;
  readonly framework: TorchFramework;
  /** The backend of torch.compile; undefined: nothing is compiled. */
  readonly compile?: string | undefined;
  /** The names of the layers that have adapters; undefined without `lora`. */
  readonly adapted?: readonly string[] | undefined;
  /** The text of the file of Python that has the model. */
  readonly source?: string | undefined;
}

/** The libraries that shard a model on PyTorch: fully_shard, FullyShardedDataParallel, or DeepSpeed. */
export const TORCH_FRAMEWORKS = ['fsdp2', 'fsdp1', 'deepspeed'] as const;
export type TorchFramework = (typeof TORCH_FRAMEWORKS)[number];

/** What a checkpoint stores of a run on PyTorch that only the launcher knows. */
export type TorchState = Pick<TrainerState, 'data' | 'schedule'>;

/** A PyTorch rank's request for microbatches, which the launcher makes. */
export interface BatchesNeeded {
  readonly run: number;
  readonly what: 'train' | 'validation';
  /** The data-parallel rank that gets the microbatches. */
  readonly rank: number;
  /** Number of the first microbatch, from 0 over the whole run or over the validation rows. */
  readonly first: number;
  readonly count: number;
}

/** Values of k microbatches. */
export interface MadeTensor {
  /** [k, batch, …]. */
  readonly shape: readonly number[];
  readonly values: Int32Array | Float32Array;
}

/**
 * Microbatches. Of text: token ids [k, batch, seq + 1]. Of instructions: also labels [k, batch, seq]. Of videos: the
 * velocity, and the model's inputs. [Note: batches for Python ranks] in torch/batches.ts.
 */
export interface BatchesMade {
  readonly run: number;
  readonly first: number;
  readonly tensors: readonly MadeTensor[];
  /** Of instructions: the lengths of documents of packed rows, and the factor of each microbatch's loss. */
  readonly answers?: {
    readonly documents: readonly NonNullable<AnswerLabels['documents']>[] | null;
    readonly factors: readonly number[];
  };
  /** The learning rate of each step that begins in these microbatches, by group. */
  readonly lrs: readonly (readonly number[])[];
  /** Of validation rows: the number of rows of each microbatch that count, and whether these are the last rows. */
  readonly counts?: readonly number[];
  readonly last?: boolean;
}
