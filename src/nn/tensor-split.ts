import type { ProcessGroup } from '../dist/types';

/** The ranks over which tensors are split. */
export interface SplitOver {
  /** The ranks that together hold the whole tensor. Source: Megatron's tensor model parallel group. */
  readonly group: ProcessGroup;
  /** How many ranks hold the same part; above 1 for the keys and values of fewer heads than ranks. */
  readonly copies: number;
  /**
   * The ranks that hold the same part and reduce its gradients, in place of all ranks that DDP or fullyShard get; default: those.
   * Source: Megatron's expert data parallel group.
   */
  readonly replicas?: ProcessGroup | undefined;
}

/** Indices [begin, end). */
export interface Range {
  readonly begin: number;
  readonly end: number;
}

/** The part of a parameter that this rank holds under tensor or expert parallelism; a part may be empty. The parameter's own shape is that of the part. */
export interface TensorSplit {
  readonly over: SplitOver;
  /** The shape of the whole tensor, without padding. */
  readonly wholeShape: readonly number[];
  /** The dim that is split. */
  readonly dim: number;
  /** The indices of the whole tensor along `dim` that the part has, in order; what is left of the part's dim is padding. */
  readonly ranges: readonly Range[];
}
