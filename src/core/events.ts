import type { DType, HalfDType, WireDType } from './dtypes';
import type { Bytes, Seconds } from './units';

/** Why bytes are held. Ledgers, figures and plans use the same words. */
export const MEMORY_CAUSES = [
  'param.shard',
  'param.full',
  'grad.shard',
  'grad.full',
  'optimizer',
  'activation',
  'batch',
  'comm',
  'temp',
] as const;
export type MemoryCause = (typeof MEMORY_CAUSES)[number];

/** Where bytes are held: the engine's backend is the device, the rest of the process is the host. */
export type Space = 'device' | 'host';

/** The purpose of a buffer: its cause and the module's full name ('' when no module applies). */
export interface Tag {
  readonly cause: MemoryCause;
  readonly module: string;
  /**
   * The type in which a device would hold a float32 buffer: its values were rounded to this type, or were computed from
   * such values in a unit with this type. A tag without it does not change it.
   */
  readonly declared?: HalfDType | undefined;
  /** For a temporary: 'ring' if one unit passes it to the next. See [Note: pool and ring]. */
  readonly part?: 'ring' | undefined;
}

/** Why ranks communicate. */
export const COMM_CAUSES = ['param', 'grad', 'norm', 'loss', 'buffer', 'user', 'control'] as const;
export type CommCause = (typeof COMM_CAUSES)[number];

export const COLLECTIVE_OPS = [
  'allReduce',
  'reduceScatter',
  'allGather',
  'broadcast',
  'allToAll',
  'send',
  'recv',
  'barrier',
] as const;
export type CollectiveOp = (typeof COLLECTIVE_OPS)[number];

/**
 * The times that separate a rank's waits in a collective: for the wire, for a peer or for a core. `lacked` is time in
 * which the thread had work but no core.
 */
export interface CollectiveProgress {
  /** When its thread could begin: the collective was posted, and the thread's queue was free. */
  readonly free: Seconds;
  /** When this rank had arrived and began to wait for others. */
  readonly arrived: Seconds;
  /** How long its thread lacked a core from `free` to `arrived`. */
  readonly lacked: Seconds;
  /**
   * How long the bytes took after all ranks had arrived: by a shaped link's model, else this rank's CPU time to move
   * them.
   */
  readonly carried: Seconds;
  /** When the main thread continued after its wait. */
  readonly resumed: Seconds;
  /** CPU time of the main thread when it posted, and when it continued. */
  readonly postedCpu: Seconds;
  readonly resumedCpu: Seconds;
}

/** One finished collective, as seen by one rank. */
export interface CollectiveEvent {
  readonly kind: 'collective';
  readonly op: CollectiveOp;
  /** The group's name; its ranks are global ranks in group order. */
  readonly group: string;
  readonly ranks: readonly number[];
  /** Number of the collective in its group, from 1. */
  readonly number: number;
  readonly dtype: DType;
  readonly wireDType: WireDType;
  /**
   * Elements of this rank's tensor: the whole tensor for allReduce, reduceScatter and allToAll, this rank's part for
   * allGather.
   */
  readonly count: number;
  /** Payload at the tensor's dtype. */
  readonly bytes: Bytes;
  /** Bytes that this rank received from others, by the ring algorithm's count, at the wire's dtype. */
  readonly wireBytes: Bytes;
  readonly cause: CommCause;
  readonly module: string;
  readonly cell: number | undefined;
  readonly line: number | undefined;
  readonly async: boolean;
  readonly posted: Seconds;
  readonly started: Seconds;
  readonly ended: Seconds;
  /** How long the main thread waited for it; the rest was overlapped. */
  readonly exposed: Seconds;
  /** Omitted if a thread's CPU time cannot be read, and over zeromq. */
  readonly progress?: CollectiveProgress | undefined;
}

export type SpanName = 'forward' | 'backward' | 'recompute' | 'loss' | 'optimizer' | 'data' | 'step';

/** A stretch of the main thread's work. */
export interface SpanEvent {
  readonly kind: 'span';
  readonly name: SpanName;
  readonly module: string;
  readonly start: Seconds;
  readonly end: Seconds;
}

/** Identifies a buffer of the engine within its process. */
export type BufferId = number;

/**
 * Takes the reports of lower layers. They get it as an argument; no layer below the ledger imports the ledger. Calls
 * are on the hot path: no allocation beyond the arguments, no throwing.
 */
export interface Observer {
  allocated(buffer: BufferId, bytes: Bytes, dtype: DType, tag: Tag, space: Space): void;
  retagged(buffer: BufferId, tag: Tag): void;
  freed(buffer: BufferId): void;
  collective(event: CollectiveEvent): void;
  span(event: SpanEvent): void;
  /** A stretch begins; `span` will report it. Observers that only need its end omit this method. */
  entered?(name: SpanName, module: string): void;
}

/** An observer that ignores everything. */
export const SILENT: Observer = {
  allocated() {},
  retagged() {},
  freed() {},
  collective() {},
  span() {},
};
