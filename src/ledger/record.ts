import type { HalfDType } from '../core/dtypes';
import {
  type CollectiveEvent,
  MEMORY_CAUSES,
  type MemoryCause,
  type Space,
  type SpanEvent,
} from '../core/events';
import type { Bytes, Seconds } from '../core/units';

/** An owner of bytes: a cause within a module ('' when no module applies), on the device or the host. */
export interface Owner {
  readonly cause: MemoryCause;
  readonly module: string;
  readonly space: Space;
  /** The 16-bit type that the values were rounded to, held as float32; omitted if there is none. */
  readonly declared?: HalfDType | undefined;
  /** For a temporary that is passed from unit to unit; otherwise omitted. */
  readonly part?: 'ring' | undefined;
}

/** Every allocation, free and change of owner within one step; three columns of equal length, in order of time. */
export interface MemoryCurve {
  /** Since the step's start. */
  readonly seconds: readonly Seconds[];
  /** Index into the record's owners. */
  readonly owner: readonly number[];
  /** Positive for allocated bytes, negative for freed bytes. */
  readonly deltaBytes: readonly Bytes[];
}

/** The memory of the process. The parts add up to `rssBytes`. */
export interface ProcessMemory {
  readonly rssBytes: Bytes;
  /** Live buffers of the engine. */
  readonly deviceBytes: Bytes;
  /** Resident part of the engine's heap that no buffer uses now. */
  readonly heapSlackBytes: Bytes;
  /** V8's heap: objects of the cell's and the library's code. */
  readonly javascriptBytes: Bytes;
  /** ArrayBuffers and other memory outside V8's heap, less the engine's heap. */
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
  /** Most bytes that the run held on the device at one moment of the step, and when (since its start). */
  readonly peakBytes: Bytes;
  readonly peakSeconds: Seconds;
  /** Bytes on the device at the step's end. */
  readonly restBytes: Bytes;
  /** Bytes on the device that are not this run's; with `restBytes` they add up to the engine's own count. */
  readonly elsewhereBytes: Bytes;
  readonly numBuffersAtRest: number;
  /** The engine's own count minus the ledger's at the step's end: 0, or null when they were not compared. */
  readonly residualBytes: 0 | null;
  readonly curve: MemoryCurve | null;
  readonly process: ProcessMemory | null;
}

/** A finished collective, times as the host's monotonic clock. */
export type CollectiveRecord = Omit<CollectiveEvent, 'kind'>;

/** A stretch of the main thread's work, times as the host's monotonic clock. */
export type SpanRecord = Omit<SpanEvent, 'kind'>;

/** One step of one rank, as plain data: it can be cloned between threads and written as one line of JSON. */
export interface StepRecord {
  readonly step: number;
  readonly rank: number;
  readonly world: number;
  /** The host's monotonic clock: comparable between ranks of one host. */
  readonly start: Seconds;
  readonly end: Seconds;
  /** CPU time of the main thread at the start and the end; omitted if it cannot be read. */
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

/** Zero bytes for every cause, to add to. */
export function noBytes(): Record<MemoryCause, Bytes> {
  const empty = {} as Record<MemoryCause, Bytes>; // filled for every cause on the next line
  for (const cause of MEMORY_CAUSES) empty[cause] = 0;
  return empty;
}
