import type { DType, HalfDType, WireDType } from './dtypes';
import type { Bytes, Seconds } from './units';

/** The causes for which bytes are held. Ledgers, figures and plans use the same words. */
export const MEMORY_CAUSES = [
  'param.shard',
  'param.full',
  'grad.shard',
  'grad.full',
  'optimizer',
  'buffer',
  'activation',
  'batch',
  'comm',
  'temp',
] as const;
export type MemoryCause = (typeof MEMORY_CAUSES)[number];

/** The memory that holds bytes: the engine's heap is the device, the heap of offloaded states is the host. */
export type Space = 'device' | 'host';

/** The purpose of a buffer: its cause, and its module's full name ('' if it has no module). */
export interface Tag {
  readonly cause: MemoryCause;
  readonly module: string;
  /**
   * The type in which a GPU would store a float32 buffer: its values were rounded to this type, or were computed from such
   * values in a unit with this type. If a new tag of a buffer omits `declared`, the buffer's type does not change.
   */
  readonly declared?: HalfDType | undefined;
  readonly part?: TemporaryPart | undefined;
}

/**
 * The kinds of temporaries that ledgers show separately. 'ring': a tensor that one unit passes to the next unit
 * ([Note: pool and ring]). 'left': a tensor that an earlier pass made and the cell has not disposed ([Note: eager recording]).
 */
export const TEMPORARY_PARTS = ['ring', 'left'] as const;
export type TemporaryPart = (typeof TEMPORARY_PARTS)[number];

/** The causes for which ranks communicate. */
export const COMM_CAUSES = [
  'param',
  'grad',
  'activation',
  'norm',
  'loss',
  'buffer',
  'user',
  'control',
] as const;
export type CommCause = (typeof COMM_CAUSES)[number];

export const COLLECTIVE_OPS = [
  'allReduce',
  'reduceScatter',
  'allGather',
  'broadcast',
  'reduce',
  'gather',
  'scatter',
  'allToAll',
  'send',
  'recv',
  'barrier',
] as const;
export type CollectiveOp = (typeof COLLECTIVE_OPS)[number];

/**
 * Times by which a rank's wait in a collective is divided into waits for the wire, for a peer and for a core. A thread that
 * waits for a core is ready to run, but no core is free.
 */
export interface CollectiveProgress {
  /** When the collective's thread could begin: the collective was posted, and all earlier collectives were done. */
  readonly free: Seconds;
  /** When this rank arrived and began to wait for the other ranks. */
  readonly arrived: Seconds;
  /** How long the collective's thread waited for a core between `free` and `arrived`. */
  readonly lacked: Seconds;
  /**
   * How long the transfer took after all ranks had arrived: on a shaped link, the time of the link's model; otherwise this
   * rank's CPU time for moving the bytes.
   */
  readonly carried: Seconds;
  /** When the main thread continued after its wait. */
  readonly resumed: Seconds;
  /** CPU time of the main thread when it posted the collective, and when it continued after its wait. */
  readonly postedCpu: Seconds;
  readonly resumedCpu: Seconds;
}

/** Reports one finished collective of one rank. */
export interface CollectiveEvent {
  readonly kind: 'collective';
  readonly op: CollectiveOp;
  /** The group's name; `ranks` are the global ranks of its members, in the group's order. */
  readonly group: string;
  readonly ranks: readonly number[];
  /** The other rank (global) of a send or recv, or the root of a reduce, gather or scatter; omitted for other operations. */
  readonly peer?: number | undefined;
  /** Number of the collective in its group, counted from 1. */
  readonly number: number;
  readonly dtype: DType;
  readonly wireDType: WireDType;
  /**
   * Number of elements of this rank's tensor. For allReduce, reduceScatter and allToAll, this is the whole tensor; for
   * allGather, gather and scatter, it is this rank's part.
   */
  readonly count: number;
  /** Payload in bytes, at the tensor's dtype. */
  readonly bytes: Bytes;
  /** Bytes that this rank receives from other ranks by the ring algorithm, at the wire's dtype. */
  readonly wireBytes: Bytes;
  /** The part of `wireBytes` that comes from ranks of other nodes; omitted if the job has no nodes. */
  readonly outsideBytes?: Bytes | undefined;
  readonly cause: CommCause;
  readonly module: string;
  readonly cell: number | undefined;
  readonly line: number | undefined;
  readonly async: boolean;
  readonly posted: Seconds;
  readonly started: Seconds;
  readonly ended: Seconds;
  /** How long the main thread waited for the collective; the rest of the collective's time overlapped with computation. */
  readonly exposed: Seconds;
  /** The times that divide the wait; omitted over zeromq, and if a thread's CPU time cannot be read. */
  readonly progress?: CollectiveProgress | undefined;
}

export type SpanName = 'forward' | 'backward' | 'recompute' | 'loss' | 'optimizer' | 'data' | 'step';

/** The work of a pipeline's stage on one microbatch. */
export interface PipelineWork {
  /**
   * Which half of backward this is: the gradients of the input or the gradients of the parameters. Only zero-bubble schedules
   * divide backward.
   */
  readonly half?: 'input' | 'weight' | undefined;
  /** The stage's index in the pipeline; with virtual stages, a rank has several stages. */
  readonly stage: number;
  readonly microbatch: number;
  /** CPU time of the main thread; omitted if it cannot be read. */
  readonly cpu?: Seconds | undefined;
}

/** A span of the main thread's work. */
export interface SpanEvent {
  readonly kind: 'span';
  readonly name: SpanName;
  readonly module: string;
  readonly start: Seconds;
  readonly end: Seconds;
  /** The stage and the microbatch; present only if the span is an action of a pipeline's schedule. */
  readonly pipeline?: PipelineWork | undefined;
}

/** What a rank's main thread begins at a point of a step; 'reshard' frees a unit's whole parameters. */
export type PointName = Exclude<SpanName, 'step'> | CollectiveOp | 'reshard';

/** A collective that a rank is about to start. */
export interface PointCollective
  extends Pick<
    CollectiveEvent,
    'group' | 'ranks' | 'peer' | 'number' | 'cause' | 'wireDType' | 'count' | 'async' | 'cell' | 'line'
  > {
  /** A description of the data, such as "the output of stage 0 for microbatch 2"; undefined if the caller gave none. */
  readonly detail: string | undefined;
}

/**
 * A point of a step, which a rank's main thread is about to pass. Walks halt here, and planted faults act here. Collectives of a
 * group's own, such as the exchange of sizes, are no points.
 */
export interface StepPoint {
  readonly name: PointName;
  /** The module's full name; '' for the whole model or none. */
  readonly module: string;
  /** Present only if the point is a collective. */
  readonly collective?: PointCollective | undefined;
  /** Present only if the point is an action of a pipeline's schedule. */
  readonly pipeline?: Omit<PipelineWork, 'cpu'> | undefined;
}

/** The values of a point's work, as views that are valid during the call: a list per part of a collective, or per gradient of a unit. */
export type PointValues = readonly Float32Array[];

/** What a listener does with the work of a point. The code of the work obeys what applies to this work, and ignores the rest. */
export interface PointAction {
  /** How often the work is done: 0 leaves it out. Default 1. */
  readonly times?: 0 | 2 | undefined;
  /** The collective changes places with the next collective of its group on this rank. */
  readonly swaps?: boolean | undefined;
  /** Gets a copy of the values that this rank brings to a collective, and may change the copy. */
  readonly brings?: ((values: PointValues) => void) | undefined;
  /** Gets the values that this rank has after the work, and may change them. */
  readonly got?: ((values: PointValues) => void) | undefined;
}

/** Is called before a point; what it returns acts on the work of the point. */
export type PointListener = (point: StepPoint) => PointAction | undefined;

/** The number of a buffer, unique within its process. */
export type BufferId = number;

/**
 * Receives the events of lower layers. Lower layers get the observer as an argument and never import the ledger. The observer's
 * methods are on the hot path: they must not throw, and their callers allocate nothing except the arguments.
 */
export interface Observer {
  allocated(buffer: BufferId, bytes: Bytes, dtype: DType, tag: Tag, space: Space): void;
  retagged(buffer: BufferId, tag: Tag): void;
  freed(buffer: BufferId): void;
  collective(event: CollectiveEvent): void;
  span(event: SpanEvent): void;
  /** Reports that a span begins; `span` will report its end. Observers that only need the end omit this method. */
  entered?(name: SpanName, module: string): void;
  /** Is called before the main thread passes a point of a step. Unlike the other methods, it may wait, and throws if it is interrupted. */
  readonly reached?: PointListener | undefined;
  /**
   * Reports that these ranks reduced the gradients of parameters that all of them hold, so they will apply equal updates. The
   * same parameters always come in the same list.
   */
  replicated?(parameters: readonly object[], ranks: readonly number[]): void;
  /** Reports all live buffers after an interrupt, which may have ended another report halfway. */
  recounted?(live: readonly LiveBuffer[]): void;
}

/** A buffer that is not freed yet. */
export interface LiveBuffer {
  readonly id: BufferId;
  readonly bytes: Bytes;
  readonly dtype: DType;
  readonly space: Space;
  readonly tag: Tag;
}

/** An observer that ignores everything. */
export const SILENT: Observer = {
  allocated() {},
  retagged() {},
  freed() {},
  collective() {},
  span() {},
};
