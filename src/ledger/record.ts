import {
  type Bytes,
  type CollectiveEvent,
  type HalfDType,
  MEMORY_CAUSES,
  type MemoryCause,
  type Seconds,
  type Space,
  type SpanEvent,
  type TemporaryPart,
} from '../core';

/** An owner of bytes: a cause and a module ('' if no module applies), on the device or the host. */
export interface Owner {
  readonly cause: MemoryCause;
  readonly module: string;
  readonly space: Space;
  /** The 16-bit type to which the values were rounded, although they are stored as float32; omitted if not rounded. */
  readonly declared?: HalfDType | undefined;
  /** The kind of a temporary, if ledgers show this kind separately; omitted for all other causes. */
  readonly part?: TemporaryPart | undefined;
}

/** Every allocation, free and change of owner within one step, in three columns of equal length, in order of time. */
export interface MemoryCurve {
  /** Seconds since the step's start. */
  readonly seconds: readonly Seconds[];
  /** Per event: the index of the owner in the record's `owners`. */
  readonly owner: readonly number[];
  /** Per event: the bytes, positive if they were allocated and negative if they were freed. */
  readonly deltaBytes: readonly Bytes[];
}

/** The resident memory of the process. The other fields add up to `rssBytes`. */
export interface ProcessMemory {
  readonly rssBytes: Bytes;
  /** Bytes of the engine's live buffers. */
  readonly deviceBytes: Bytes;
  /** Resident bytes of the engine's heap that no buffer uses now. */
  readonly heapSlackBytes: Bytes;
  /** V8's heap: objects of the cell's and the library's code. */
  readonly javascriptBytes: Bytes;
  /** ArrayBuffers and other memory outside V8's heap, without the engine's heap. */
  readonly externalBytes: Bytes;
  /** Node itself: code, libraries, stacks. */
  readonly nodeBytes: Bytes;
}

/**
 * Memory of one run on one rank over one step. `atStart`, `atPeak` and `atRest` are bytes by owner, in the order of
 * `owners`. Bytes of other runs and cells of the process are only in `elsewhereBytes`.
 */
export interface MemoryRecord {
  readonly owners: readonly Owner[];
  readonly atStart: readonly Bytes[];
  readonly atPeak: readonly Bytes[];
  readonly atRest: readonly Bytes[];
  /** Maximum of the bytes that the run held on the device; `peakSeconds` is the time of this peak since the step's start. */
  readonly peakBytes: Bytes;
  readonly peakSeconds: Seconds;
  /** Bytes that the run holds on the device at the step's end. */
  readonly restBytes: Bytes;
  /** Bytes on the device that do not belong to this run; `restBytes + elsewhereBytes` is the engine's own count. */
  readonly elsewhereBytes: Bytes;
  readonly numBuffersAtRest: number;
  /** The engine's own count minus the ledger's count at the step's end: 0, or null if the two counts were not compared. */
  readonly residualBytes: 0 | null;
  readonly curve: MemoryCurve | null;
  readonly process: ProcessMemory | null;
}

/** A finished collective. Times are of the machine's monotonic clock. */
export type CollectiveRecord = Omit<CollectiveEvent, 'kind'>;

/** A span of the main thread's work. Times are of the machine's monotonic clock. */
export type SpanRecord = Omit<SpanEvent, 'kind'>;

/** One step of one rank, as plain data: it can be cloned between threads and written as one line of JSON. */
export interface StepRecord {
  readonly step: number;
  readonly rank: number;
  readonly world: number;
  /** Time by the machine's monotonic clock, which is comparable between ranks on one machine. */
  readonly start: Seconds;
  readonly end: Seconds;
  /** `startCpu` and `endCpu` are the main thread's CPU time at the step's start and end; omitted if this time cannot be read. */
  readonly startCpu?: Seconds | undefined;
  readonly endCpu?: Seconds | undefined;
  readonly loss: number | null;
  /** Tokens that this rank processed in this step. */
  readonly tokens: number | null;
  readonly memory: MemoryRecord;
  readonly collectives: readonly CollectiveRecord[];
  readonly spans: readonly SpanRecord[];
}

/** Bytes by cause; every cause is present. */
export type BytesByCause = Readonly<Record<MemoryCause, Bytes>>;

/** Returns zero bytes for every cause, in an object that can be changed. */
export function noBytes(): Record<MemoryCause, Bytes> {
  const empty = {} as Record<MemoryCause, Bytes>; // filled for every cause on the next line
  for (const cause of MEMORY_CAUSES) empty[cause] = 0;
  return empty;
}
