import type { WireDType } from '../core/dtypes';
import type { CommCause } from '../core/events';
import type * as tf from '../core/tf';

/** How a reduction combines the ranks' values. */
export type ReduceOp = 'sum' | 'avg' | 'max';

/**
 * A started operation. `wait` blocks the main thread until it is done and returns its result; a second `wait`
 * returns the same result. Throws: COLLECTIVE_MISMATCH, RANK_DIED, INTERRUPTED, ABORTED.
 */
export interface Work<T> {
  readonly done: boolean;
  /** After `wait`: whether all ranks gave the same `note`. Omitted by work that combines other work. */
  readonly agrees?: boolean;
  wait(): T;
}

/** Some elements of a tensor's storage, or elements that exist only on the wire (padding: zeros out, dropped in). */
export type Piece =
  | { readonly tensor: tf.Tensor; readonly offset: number; readonly length: number }
  | { readonly padding: number };

/** One participant's share of a collective: pieces in wire order. */
export type PieceList = readonly Piece[];

/** What every collective takes. */
export interface CollectiveOptions {
  /** true: runs beside the main thread; false: the call returns when it is done. Default false. */
  readonly async?: boolean;
  /** Type of values on the wire; default: the tensor's type. */
  readonly wireDType?: WireDType;
  /** For ledgers and messages. Default 'user', ''. */
  readonly cause?: CommCause;
  readonly module?: string;
  /** An int32 that ranks compare together with the fingerprint, at no extra cost. Default 0. */
  readonly note?: number;
}

/**
 * Ranks that communicate. All of them must call collectives in the same order; a mismatch is an error on all ranks that
 * shows both call sites. Sums run in rank order, so results do not depend on timing.
 */
export interface ProcessGroup {
  readonly name: string;
  /** Global ranks in group order. */
  readonly ranks: readonly number[];
  /** This process's rank index in the group, from 0. */
  readonly rank: number;
  readonly size: number;

  /** In place: every rank ends with the reduction. */
  allReduce(tensor: tf.Tensor, op?: ReduceOp, options?: CollectiveOptions): Work<tf.Tensor>;
  /** In place over pieces of equal total length on all ranks. */
  allReducePieces(pieces: PieceList, op?: ReduceOp, options?: CollectiveOptions): Work<void>;
  /**
   * inputs[r] is this rank's contribution to rank r's share; `output` receives the reduction of this rank's share.
   * Shares may differ in length (uneven).
   */
  reduceScatterPieces(
    inputs: readonly PieceList[],
    output: PieceList,
    op?: ReduceOp,
    options?: CollectiveOptions,
  ): Work<void>;
  /**
   * outputs[r] receives rank r's `input`. Lengths may differ between ranks (uneven); outputs[r] has rank r's length.
   */
  allGatherPieces(input: PieceList, outputs: readonly PieceList[], options?: CollectiveOptions): Work<void>;
  allToAllPieces(
    inputs: readonly PieceList[],
    outputs: readonly PieceList[],
    options?: CollectiveOptions,
  ): Work<void>;

  /** Concatenates all ranks' tensors along axis 0: [n, …] → [size * n, …]. Uneven first axes are allowed. */
  allGather(tensor: tf.Tensor, options?: CollectiveOptions): Work<tf.Tensor>;
  /** Reduces and keeps this rank's part of axis 0: [size * n, …] → [n, …]. Throws: SHAPE when axis 0 is not divisible. */
  reduceScatter(tensor: tf.Tensor, op?: ReduceOp, options?: CollectiveOptions): Work<tf.Tensor>;
  /** Transposes blocks along axis 0: part r of this rank's tensor goes to rank r. */
  allToAll(tensor: tf.Tensor, options?: CollectiveOptions): Work<tf.Tensor>;
  /** In place: every rank ends with the values of `source` (rank in the group). */
  broadcast(tensor: tf.Tensor, source: number, options?: CollectiveOptions): Work<tf.Tensor>;
  send(tensor: tf.Tensor, destination: number, options?: CollectiveOptions): Work<void>;
  /** In place into `tensor`. */
  recv(tensor: tf.Tensor, source: number, options?: CollectiveOptions): Work<tf.Tensor>;
  barrier(options?: CollectiveOptions): Work<void>;

  /**
   * A group of some of this group's ranks (rank indices in this group). Every rank of this group must call it, in the
   * same order. null on other ranks. Throws: MESH for ranks that are not in this group or named twice.
   */
  subgroup(ranks: readonly number[], name?: string): ProcessGroup | null;
}
