import { COMM_CAUSES, type CommCause } from '../core/events';
import type { Bytes, Seconds } from '../core/units';
import type { CollectiveRecord, StepRecord } from './record';

/** Sums over collectives of one kind. */
export interface CommunicationRow {
  readonly rank: number;
  readonly cause: CommCause;
  readonly op: string;
  readonly group: string;
  readonly count: number;
  /** Payload at the tensors' dtype. */
  readonly bytes: Bytes;
  /** What the rank received from others. */
  readonly wireBytes: Bytes;
  /** The main thread stood still. */
  readonly exposedSeconds: Seconds;
  /** The main thread worked on meanwhile. */
  readonly overlappedSeconds: Seconds;
}

/** How long a collective ran while the main thread worked on. */
export function overlappedSeconds(event: CollectiveRecord): Seconds {
  return Math.max(0, event.ended - event.started - event.exposed);
}

/** Sums by rank, cause, operation and group, ordered so. Several steps add up. */
export function communication(records: readonly StepRecord[]): CommunicationRow[] {
  const sums = new Map<string, CommunicationRow>();
  for (const record of records) {
    for (const event of record.collectives) {
      const key = [record.rank, event.cause, event.op, event.group].join('\u0000');
      sums.set(key, plus(sums.get(key), record.rank, event));
    }
  }
  const order = (row: CommunicationRow): number => COMM_CAUSES.indexOf(row.cause);
  return [...sums.values()].sort(
    (a, b) =>
      a.rank - b.rank || order(a) - order(b) || a.op.localeCompare(b.op) || a.group.localeCompare(b.group),
  );
}

function plus(row: CommunicationRow | undefined, rank: number, event: CollectiveRecord): CommunicationRow {
  return {
    rank,
    cause: event.cause,
    op: event.op,
    group: event.group,
    count: (row?.count ?? 0) + 1,
    bytes: (row?.bytes ?? 0) + event.bytes,
    wireBytes: (row?.wireBytes ?? 0) + event.wireBytes,
    exposedSeconds: (row?.exposedSeconds ?? 0) + event.exposed,
    overlappedSeconds: (row?.overlappedSeconds ?? 0) + overlappedSeconds(event),
  };
}
