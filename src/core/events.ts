import type { DType, HalfDType, WireDType } from './dtypes';
import type { Bytes, Seconds } from './units';

/** Why bytes are held. Same words in ledgers, figures and plans. */
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

/** Where bytes are held: what the engine's backend holds is the device, the rest of the process is the host. */
export type Space = 'device' | 'host';

/** What a buffer is for: its cause and the module's full name ('' when no module applies). */
export interface Tag {
  readonly cause: MemoryCause;
  readonly module: string;
  /**
   * The type that a device would hold a float32 buffer in: its values were rounded to it, or were computed from such values
   * where that type is a unit's. A tag that does not mention it leaves it as it was.
   */
  readonly declared?: HalfDType | undefined;
  /** Of a temporary: 'ring' where it is handed from one unit to the next. See [Note: pool and ring]. */
  readonly part?: 'ring' | undefined;
}

/** Why ranks communicate. */
export const COMM_CAUSES = ['param', 'grad', 'norm', 'loss', 'buffer', 'user', 'control'] as const;
export type CommCause = (typeof COMM_CAUSES)[number];

export type CollectiveOp =
  | 'allReduce'
  | 'reduceScatter'
  | 'allGather'
  | 'broadcast'
  | 'allToAll'
  | 'send'
  | 'recv'
  | 'barrier';

/**
 * What tells apart what a rank waited for in a collective: the wire, a peer or a core. `lacked` is time in which the thread had
 * something to do and no core to do it on.
 */
export interface CollectiveProgress {
  /** When the thread that ran it could begin: it was posted, and the thread's queue was free. */
  readonly free: Seconds;
  /** When this rank had come, and others were waited for. */
  readonly arrived: Seconds;
  /** How long that thread lacked a core from `free` to `arrived`. */
  readonly lacked: Seconds;
  /** How long the bytes took once all had come: by a shaped link's model, else what this rank computed to move them. */
  readonly carried: Seconds;
  /** When the main thread went on after its wait. */
  readonly resumed: Seconds;
  /** CPU time of the main thread when it posted, and when it went on. */
  readonly postedCpu: Seconds;
  readonly resumedCpu: Seconds;
}

/** One finished collective as one rank saw it. */
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
  /** Elements of this rank's tensor: the whole one for allReduce, reduceScatter and allToAll, the own part for allGather. */
  readonly count: number;
  /** Payload at the tensor's dtype. */
  readonly bytes: Bytes;
  /** What this rank received from others by the ring algorithm's count, at the wire's dtype. */
  readonly wireBytes: Bytes;
  readonly cause: CommCause;
  readonly module: string;
  readonly cell: number | undefined;
  readonly line: number | undefined;
  readonly async: boolean;
  readonly posted: Seconds;
  readonly started: Seconds;
  readonly ended: Seconds;
  /** How long the main thread stood still for it; the rest was overlapped. */
  readonly exposed: Seconds;
  /** Left out where a thread's CPU time cannot be read, and over zeromq. */
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
 * What lower layers tell about themselves. They get one by argument; nothing below the ledger knows the ledger.
 * Calls are on the hot path: no allocation beyond the arguments, no throwing.
 */
export interface Observer {
  allocated(buffer: BufferId, bytes: Bytes, dtype: DType, tag: Tag, space: Space): void;
  retagged(buffer: BufferId, tag: Tag): void;
  freed(buffer: BufferId): void;
  collective(event: CollectiveEvent): void;
  span(event: SpanEvent): void;
  /** A stretch begins that `span` will tell; left out by those who need its end only. */
  entered?(name: SpanName, module: string): void;
}

/** Drops everything. */
export const SILENT: Observer = {
  allocated() {},
  retagged() {},
  freed() {},
  collective() {},
  span() {},
};
