import type { CommCause, WireDType } from '../../core';
import type * as tf from '../../core/tf';
import type { Contents } from '../transport/call';

/** The operation by which a reduction combines the ranks' values. */
export type ReduceOp = 'sum' | 'avg' | 'max';

/**
 * A collective that was started. `wait` blocks the main thread until the collective is done, and returns the collective's
 * result; a second `wait` returns the same result. `wait` throws: COLLECTIVE_MISMATCH, RANK_DIED, INTERRUPTED, ABORTED.
 */
export interface Work<T> {
  readonly done: boolean;
  /**
   * Whether all ranks passed the same `note`; valid after `wait`. A work that combines several works does not have this field.
   */
  readonly agrees?: boolean;
  wait(): T;
}

/** Consecutive elements of a tensor, or padding: elements that are sent as zeros and dropped when they are received. */
export type Piece =
  | { readonly tensor: tf.Tensor; readonly offset: number; readonly length: number }
  | { readonly padding: number };

/** The pieces that a rank sends or receives as one buffer, in the order in which they are sent over the wire. */
export type PieceList = readonly Piece[];

/** Options of every collective. */
export interface CollectiveOptions {
  /** If true, the collective runs on the comm thread; if false (the default), the call returns when the collective is done. */
  readonly async?: boolean;
  /** Type of the values on the wire. Default: the tensor's type. */
  readonly wireDType?: WireDType;
  /** The cause and module that ledgers and messages show. Default: cause 'user', module ''. */
  readonly cause?: CommCause;
  readonly module?: string;
  /**
   * An int32 that ranks compare together with the fingerprint, at no extra cost; a send and its recv with different notes are a
   * mismatch. Default 0.
   */
  readonly note?: number;
  /**
   * What the call carries; ranks compare its word together with the fingerprint, at no extra cost. Default: `module`, so that a
   * call of the library names the same module on all ranks. A call of the user has no module and compares nothing more.
   */
  readonly contents?: Contents;
  /**
   * A text for hang reports and errors that says what the call carries: 'the output of microbatch 2 from stage 0'. Default:
   * none.
   */
  readonly detail?: string;
}

/** The two groups of a rank in which a hierarchical collective runs. [Note: hierarchical all-reduce] */
export interface NodeLevels {
  /** The ranks of this rank's node. */
  readonly inside: ProcessGroup;
  /** One rank of each node: those that have the same place in their node. */
  readonly across: ProcessGroup;
}

/**
 * Ranks that communicate. All ranks of a group must call the group's collectives in the same order; a mismatch is an error on all
 * ranks, and the error shows both call sites. Sums are computed in rank order, so results do not depend on timing.
 */
export interface ProcessGroup {
  readonly name: string;
  /** Global ranks in group order. */
  readonly ranks: readonly number[];
  /** This process's rank index in the group, from 0. */
  readonly rank: number;
  readonly size: number;

  /** Reduces all ranks' tensors; every rank gets the result in place. */
  allReduce(tensor: tf.Tensor, op?: ReduceOp, options?: CollectiveOptions): Work<tf.Tensor>;
  /** Reduces pieces in place; the total length of the pieces must be equal on all ranks. */
  allReducePieces(pieces: PieceList, op?: ReduceOp, options?: CollectiveOptions): Work<void>;
  /**
   * Reduces inputs[r] of all ranks onto rank r; `output` receives this rank's result. inputs[r] has the same length on all
   * ranks; for different r the lengths may differ (uneven).
   */
  reduceScatterPieces(
    inputs: readonly PieceList[],
    output: PieceList,
    op?: ReduceOp,
    options?: CollectiveOptions,
  ): Work<void>;
  /** Gathers every rank's `input`: outputs[r] receives rank r's input. Lengths may differ between ranks (uneven). */
  allGatherPieces(input: PieceList, outputs: readonly PieceList[], options?: CollectiveOptions): Work<void>;
  allToAllPieces(
    inputs: readonly PieceList[],
    outputs: readonly PieceList[],
    options?: CollectiveOptions,
  ): Work<void>;

  /** Concatenates all ranks' tensors along axis 0: [n, …] → [size * n, …]. n may differ between ranks (uneven). */
  allGather(tensor: tf.Tensor, options?: CollectiveOptions): Work<tf.Tensor>;
  /** Returns this rank's part of the reduction: [size * n, …] → [n, …]. Throws: SHAPE if the ranks do not divide axis 0. */
  reduceScatter(tensor: tf.Tensor, op?: ReduceOp, options?: CollectiveOptions): Work<tf.Tensor>;
  /** Sends part r of this rank's tensor (along axis 0) to rank r; returns the received parts in rank order. */
  allToAll(tensor: tf.Tensor, options?: CollectiveOptions): Work<tf.Tensor>;
  /** Copies the tensor of `source` (a rank index in the group) to all ranks, in place. */
  broadcast(tensor: tf.Tensor, source: number, options?: CollectiveOptions): Work<tf.Tensor>;
  /** Reduces all ranks' tensors; the tensor of `destination` (a rank index in the group) gets the result, in place. */
  reduce(tensor: tf.Tensor, destination: number, op?: ReduceOp, options?: CollectiveOptions): Work<tf.Tensor>;
  /**
   * Gives `destination` every rank's `input`, in place: outputs[r] receives rank r's input. Only `destination` passes outputs; all inputs
   * have the same length.
   */
  gatherPieces(
    input: PieceList,
    outputs: readonly PieceList[],
    destination: number,
    options?: CollectiveOptions,
  ): Work<void>;
  /** Gives rank r inputs[r] of `source`, in `output`. Only `source` passes inputs; all parts have the same length. */
  scatterPieces(
    inputs: readonly PieceList[],
    output: PieceList,
    source: number,
    options?: CollectiveOptions,
  ): Work<void>;
  send(tensor: tf.Tensor, destination: number, options?: CollectiveOptions): Work<void>;
  /** Receives a tensor from rank index `source` into `tensor`, in place. */
  recv(tensor: tf.Tensor, source: number, options?: CollectiveOptions): Work<tf.Tensor>;
  barrier(options?: CollectiveOptions): Work<void>;

  /**
   * Makes a group of some of this group's ranks (rank indices in this group). Every rank of this group must call `subgroup`, in
   * the same order. Returns null on ranks that are not in the subgroup. Throws: MESH for unknown and repeated ranks.
   */
  subgroup(ranks: readonly number[], name?: string): ProcessGroup | null;
  /**
   * Returns how often this rank called `ordinal(kind)` before, in the running cell or call. So things of one kind that all ranks
   * make in the same order have the same number on all ranks, without communication.
   */
  ordinal(kind: string): number;
  /**
   * Returns the groups of a hierarchical collective, which the first call of an epoch makes; every rank of this group must call it. Null if
   * the group's ranks are in one node, or each in its own. Throws: CONFIG without nodes, or for nodes with different numbers of ranks.
   */
  nodeLevels(): NodeLevels | null;
  /** Makes a group of this rank alone; no other rank takes part. */
  alone(name: string): ProcessGroup;
  /**
   * Releases the group, which cannot be used afterwards; every rank of the group should do this. Groups that no code can reach
   * are released without a call. Throws: CONFIG for the group of all ranks.
   */
  destroy(): void;
}
