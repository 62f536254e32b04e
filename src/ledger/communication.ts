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
export function communication(records: Iterable<StepRecord>): CommunicationRow[] {
  const traffic = new Traffic();
  traffic.add(records);
  return traffic.rows;
}

/** What was communicated in many steps, added up as they come. */
export class Traffic {
  readonly #sums = new Map<string, CommunicationRow>();
  /** Records by rank. */
  readonly #counts = new Map<number, number>();

  /** Steps that were added: those of the rank with most of them. */
  get numSteps(): number {
    return Math.max(0, ...this.#counts.values());
  }

  /** Each is one rank's step. */
  get numRecords(): number {
    return [...this.#counts.values()].reduce((sum, count) => sum + count, 0);
  }

  add(records: Iterable<StepRecord>): void {
    for (const { rank, collectives } of records) {
      this.#counts.set(rank, (this.#counts.get(rank) ?? 0) + 1);
      for (const event of collectives) {
        const key = [rank, event.cause, event.op, event.group].join('\u0000');
        this.#sums.set(key, plus(this.#sums.get(key), rank, event));
      }
    }
  }

  /** By rank, cause, operation and group, ordered so. */
  get rows(): CommunicationRow[] {
    const order = (row: CommunicationRow): number => COMM_CAUSES.indexOf(row.cause);
    return [...this.#sums.values()].sort(
      (a, b) =>
        a.rank - b.rank || order(a) - order(b) || a.op.localeCompare(b.op) || a.group.localeCompare(b.group),
    );
  }
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
