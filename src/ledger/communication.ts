import { type Bytes, COMM_CAUSES, type CommCause, type Seconds } from '../core';
import type { CollectiveRecord, StepRecord } from './record';
import { plusWaits, type WaitSeconds, waitSecondsOf, waitsOf } from './waits';

/** Sums over collectives of the same rank, cause, operation and group. */
export interface CommunicationRow {
  readonly rank: number;
  readonly cause: CommCause;
  readonly op: string;
  readonly group: string;
  readonly count: number;
  /** Bytes of the payload in the tensors' dtype. */
  readonly bytes: Bytes;
  /** Bytes that the rank received from other ranks. */
  readonly wireBytes: Bytes;
  /** The part of `wireBytes` that comes from other nodes; omitted if the job has no nodes. */
  readonly outsideBytes?: Bytes;
  /** Time in which the main thread waited; `waits` divides this time by kind of wait. */
  readonly exposedSeconds: Seconds;
  readonly waits: WaitSeconds;
  /** Time in which bytes were on the wire; in the rest of a collective's time, the collective waited for ranks. */
  readonly wireSeconds: Seconds;
  /** Time in which bytes were on the wire while the main thread computed. */
  readonly overlappedSeconds: Seconds;
}

/** Returns the time in which a collective's bytes were on the wire. */
export function wireSeconds({ started, ended, progress }: CollectiveRecord): Seconds {
  return progress?.carried ?? Math.max(0, ended - started);
}

/** Returns sums over all records by rank, cause, operation and group, sorted in this order. */
export function communication(records: readonly StepRecord[]): CommunicationRow[] {
  const sums = new Map<string, CommunicationRow>();
  for (const step of bySteps(records)) {
    const waits = waitsOf(step);
    for (const { rank, collectives } of step) {
      const parts = waits.get(rank) ?? [];
      for (const event of collectives) {
        const key = [rank, event.cause, event.op, event.group].join('\u0000');
        const own = parts.filter((part) => part.event === event);
        sums.set(key, plus(sums.get(key), rank, event, waitSecondsOf(own)));
      }
    }
  }
  const order = (row: CommunicationRow): number => COMM_CAUSES.indexOf(row.cause);
  return [...sums.values()].sort(
    (a, b) =>
      a.rank - b.rank || order(a) - order(b) || a.op.localeCompare(b.op) || a.group.localeCompare(b.group),
  );
}

/** Groups records by step. */
export function bySteps(records: readonly StepRecord[]): StepRecord[][] {
  const steps = new Map<number, StepRecord[]>();
  for (const record of records) {
    const known = steps.get(record.step);
    if (known === undefined) steps.set(record.step, [record]);
    else known.push(record);
  }
  return [...steps.values()];
}

function plus(
  row: CommunicationRow | undefined,
  rank: number,
  event: CollectiveRecord,
  waits: WaitSeconds,
): CommunicationRow {
  const wire = wireSeconds(event);
  const hidden = Math.max(0, wire - waits.wire - waits.unknown);
  return {
    rank,
    cause: event.cause,
    op: event.op,
    group: event.group,
    count: (row?.count ?? 0) + 1,
    bytes: (row?.bytes ?? 0) + event.bytes,
    wireBytes: (row?.wireBytes ?? 0) + event.wireBytes,
    ...(event.outsideBytes !== undefined && { outsideBytes: (row?.outsideBytes ?? 0) + event.outsideBytes }),
    exposedSeconds: (row?.exposedSeconds ?? 0) + event.exposed,
    waits: plusWaits(row?.waits, waits),
    wireSeconds: (row?.wireSeconds ?? 0) + wire,
    overlappedSeconds: (row?.overlappedSeconds ?? 0) + hidden,
  };
}
