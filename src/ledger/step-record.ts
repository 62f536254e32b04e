import type { Bytes, Seconds } from '../core';
import type { OwnerTable } from './owner-table';
import type { MemoryCurve, Owner, ProcessMemory, StepRecord } from './record';
import type { EndedStep, StepEvents } from './step-events';

/** Facts about an ended step that the caller knows. */
export interface StepFacts {
  readonly loss?: number | null;
  readonly tokens?: number | null;
  /** The engine's own count of bytes (engine.memory.bytes), which the ledger's count must equal. */
  readonly engineBytes?: Bytes;
  readonly process?: ProcessMemory | null;
  /** Whether to store every allocation and free (about 20 bytes of JSON each). Default true. */
  readonly curve?: boolean;
}

/** The rank whose step is recorded, and the run whose buffers the record contains. */
interface Place {
  readonly rank: number;
  readonly world: number;
  readonly table: OwnerTable;
  readonly run: number;
}

/** Makes the record of an ended step; see [Note: recorder]. */
export function stepRecord(
  { start, end, events }: EndedStep,
  facts: Omit<StepFacts, 'engineBytes'>,
  { rank, world, table, run }: Place,
): StepRecord {
  const own = (bytes: readonly Bytes[]): Bytes[] =>
    table.runs.map((ofRun, i) => (ofRun === run ? (bytes[i] ?? 0) : 0));
  const onDevice = (bytes: readonly Bytes[]): Bytes =>
    table.owners.reduce((sum, { space }, i) => sum + (space === 'device' ? (bytes[i] ?? 0) : 0), 0);
  const { peak } = end;
  const atPeak = own(peak.later?.held ?? replay(start.live, events, peak.numEvents));
  const restBytes = onDevice(own(end.live));
  const hasCurve = facts.curve !== false && !events.isFull;
  const listed = listedOwners(table, run, hasCurve ? events.owner : []);
  const of = (bytes: readonly Bytes[]): Bytes[] => listed.map((owner) => bytes[owner] ?? 0);
  return {
    step: start.step,
    rank,
    world,
    start: start.at,
    end: end.at,
    ...(end.cpu === undefined ? {} : { startCpu: start.cpu, endCpu: end.cpu }),
    loss: facts.loss ?? null,
    tokens: facts.tokens ?? null,
    memory: {
      owners: listed.map((owner) => table.owners[owner] as Owner), // `listed` has only indices of this table
      atStart: of(own(start.live)),
      atPeak: of(atPeak),
      atRest: of(own(end.live)),
      peakBytes: onDevice(atPeak),
      peakSeconds: microseconds(peak.later?.seconds ?? events.seconds[peak.numEvents - 1] ?? 0),
      restBytes,
      elsewhereBytes: end.deviceBytes - restBytes,
      numBuffersAtRest: end.numBuffers,
      residualBytes: end.isCompared ? 0 : null,
      curve: hasCurve ? curveOf(events, listed) : null,
      process: facts.process ?? null,
    },
    collectives: events.collectives.map(({ kind: _, ...rest }) => rest),
    spans: events.spans.map(({ kind: _, ...rest }) => rest),
  };
}

/**
 * Returns the owners that a record lists: the owners of the record's run and of its curve. If a record listed the owners of
 * all earlier runs, records would grow without limit.
 */
function listedOwners({ runs }: OwnerTable, run: number, inCurve: readonly number[]): number[] {
  const own = runs.flatMap((ofRun, owner) => (ofRun === run ? [owner] : []));
  return [...new Set([...own, ...inCurve])].sort((a, b) => a - b);
}

/** Returns the events of a step; owners are indices in `listed`. */
function curveOf({ seconds, owner, delta }: StepEvents, listed: readonly number[]): MemoryCurve {
  const indices = new Map(listed.map((index, i) => [index, i]));
  return {
    seconds: seconds.map(microseconds),
    owner: owner.map((index) => indices.get(index) ?? -1),
    deltaBytes: delta,
  };
}

/** Returns bytes by owner after a number of events. */
function replay(atStart: readonly Bytes[], { owner, delta }: StepEvents, numEvents: number): Bytes[] {
  const held = atStart.slice();
  for (let i = 0; i < numEvents; i++) {
    const at = owner[i] ?? 0;
    held[at] = (held[at] ?? 0) + (delta[i] ?? 0);
  }
  return held;
}

/** Rounds to 0.1 µs, so that records are short as JSON. */
function microseconds(seconds: Seconds): Seconds {
  return Math.round(seconds * 1e7) / 1e7;
}
