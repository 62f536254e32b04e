import type { ProcessGroup } from '../wire';

/** The ranks over which tensors are split. */
export interface SplitOver {
  /** The ranks that together hold the whole tensor. Source: Megatron's tensor model parallel group. */
  readonly group: ProcessGroup;
  /** The number of ranks that hold the same part; above 1 if keys and values have fewer heads than there are ranks. */
  readonly copies: number;
  /**
   * The ranks that hold the same part and reduce its gradients. Default: the ranks that DDP or fullyShard gets.
   * Source: Megatron's expert data parallel group.
   */
  readonly replicas?: ProcessGroup | undefined;
}

/** Indices [begin, end). */
export interface IndexRange {
  readonly begin: number;
  readonly end: number;
}

/**
 * The part of a parameter that this rank holds under tensor or expert parallelism; a part may be empty. The parameter's `shape`
 * is the shape of the part.
 */
export interface TensorSplit {
  readonly over: SplitOver;
  /** The shape of the whole tensor, without padding. */
  readonly wholeShape: readonly number[];
  /** The dim that is split. */
  readonly dim: number;
  /** Which indices of the whole tensor along `dim` the part has, in order. The rest of the part along `dim` is padding. */
  readonly ranges: readonly IndexRange[];
}
