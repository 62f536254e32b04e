import {
  COLLECTIVE_OPS,
  type CollectiveProgress,
  type CommCause,
  type Seconds,
  type WireDType,
} from '../../core';
import type { Storage } from '../../engine';

/** The operations that combine the ranks' contributions, always in rank order, so the result does not depend on timing. */
export const REDUCTIONS = ['sum', 'avg', 'max'] as const;
export type Reduction = (typeof REDUCTIONS)[number];

/** The public collectives, and two collectives (exchange, subgroup) that only the code of groups calls. */
export const CALL_OPS = [...COLLECTIVE_OPS, 'exchange', 'subgroup'] as const;
export type CallOp = (typeof CALL_OPS)[number];

export const WIRE_DTYPES = [
  'float32',
  'int32',
  'bfloat16',
  'float16',
] as const satisfies readonly WireDType[];

/** Types of tensors that collectives carry. An element of either type takes four bytes in memory. */
export type ValueDType = 'float32' | 'int32';

/** Bytes of one element in a tensor's storage, for every type that collectives carry. */
export const VALUE_BYTES = 4;

/** What a call carries, as ranks compare it. */
export interface Contents {
  /** A hash; it must be equal on all ranks of a call. */
  readonly word: number;
  /** What the word stands for, for messages. */
  readonly text: string;
}

/** The cell and line of the user's code that called a collective. */
export interface CallSite {
  readonly cell: number | undefined;
  readonly line: number | undefined;
  /** The call site as text for users: "In[3]:12", "train.js:40", or '' if it is unknown. */
  readonly text: string;
}

/** A collective without its data: the facts that ranks compare and that messages and events show. */
export interface CallHeader {
  readonly op: CallOp;
  readonly group: string;
  /** The collective's number in its group, from 1. Sends and recvs are numbered per direction between two ranks. */
  readonly number: number;
  readonly epoch: number;
  readonly async: boolean;
  readonly dtype: ValueDType;
  readonly wireDType: WireDType;
  readonly reduction: Reduction | undefined;
  /** Rank index in the group: the root of a broadcast, reduce, gather or scatter, or the other end of a send or recv; else -1. */
  readonly peer: number;
  /** Elements of this rank's tensor. */
  readonly count: number;
  /** For exchange and subgroup, the value that the other ranks get; for other collectives, a value that ranks compare. */
  readonly value: number;
  /** A second number, which must be equal on all ranks of an exchange or subgroup. */
  readonly signature: number;
  readonly cause: CommCause;
  readonly module: string;
  /** Undefined: the caller does not say what the call carries. */
  readonly contents?: Contents | undefined;
  /** A description of the data that the call carries, for messages. */
  readonly detail?: string | undefined;
  readonly site: CallSite;
}

/** A range of elements in a tensor's storage. A block without a storage is padding, which exists only on the wire. */
export interface StorageBlock {
  readonly storage: Storage | undefined;
  readonly offset: number;
  readonly length: number;
}

/** The blocks of a tensor or a part, in the order in which the wire carries them. */
export type BlockList = readonly StorageBlock[];

/**
 * A collective with its data. The op determines which lists the call has.
 * allReduce, broadcast: inputs[0] and outputs[0] are the same list. reduceScatter: inputs by rank, and outputs[0].
 * allGather: inputs[0], and outputs by rank. allToAll: inputs and outputs by rank. send: inputs[0]. recv: outputs[0].
 * reduce: inputs[0], and on the root outputs[0]. gather: inputs[0], and on the root outputs by rank. scatter: on the root inputs by
 * rank, and outputs[0].
 */
export interface Call {
  readonly header: CallHeader;
  readonly inputs: readonly BlockList[];
  readonly outputs: readonly BlockList[];
}

/** The time of a rank's arrival at a collective, by the machine's clock and by the CPU clock of the rank's thread. */
export interface Arrival {
  readonly at: Seconds;
  readonly cpu: Seconds;
}

/** The part of a collective's times that is known to the thread that runs the collective. */
export type ThreadProgress = Pick<CollectiveProgress, 'free' | 'arrived' | 'lacked' | 'carried'>;

/** The times of a collective, and `values`: the value in each rank's header. Only exchange and subgroup use these values. */
export interface CallResult {
  readonly started: Seconds;
  readonly ended: Seconds;
  readonly values: readonly number[];
  readonly progress?: ThreadProgress | undefined;
  /** Whether all ranks' headers had the same value. */
  readonly agrees: boolean;
}

/** Whether all values are equal. */
export function allAgree(values: readonly number[]): boolean {
  return values.every((value) => value === values[0]);
}

export function blocksLength(list: BlockList): number {
  let total = 0;
  for (const block of list) total += block.length;
  return total;
}
