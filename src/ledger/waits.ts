import type { CollectiveProgress } from '../core/events';
import type { Seconds } from '../core/units';
import type { CollectiveRecord, StepRecord } from './record';

/** What a rank that stands still waits for. 'unknown' where the host cannot say. */
export const WAIT_KINDS = ['wire', 'peer', 'core', 'unknown'] as const;
export type WaitKind = (typeof WAIT_KINDS)[number];

/** A stretch in which the main thread stood still. Times on the host's clock. */
export interface WaitPart {
  readonly kind: WaitKind;
  /** What was waited for. */
  readonly event: CollectiveRecord;
  readonly start: Seconds;
  readonly end: Seconds;
}

/** Seconds by kind; they add up to the exposed wait. */
export type WaitSeconds = Readonly<Record<WaitKind, Seconds>>;

const NO_WAITS: WaitSeconds = { wire: 0, peer: 0, core: 0, unknown: 0 };

type Told = CollectiveRecord & { readonly progress: CollectiveProgress };

/** A rank's collective with what the rank had lacked of a core when it posted it, since it last went on. */
interface Arrived {
  readonly rank: number;
  readonly progress: CollectiveProgress;
  readonly mainLacked: Seconds;
  readonly posted: Seconds;
}

/**
 * What each rank of a step waited for, rank by rank, in order of time.
 *
 * [Note: kinds of waits] A wait for a collective has three stretches. Until the last rank has come it is a wait for that peer;
 * so much of it as the peer lacked a core since it last waited (its wall time less its thread's CPU time, on its main thread
 * up to posting and on its communicating thread up to arriving) is a wait for a core. Then the bytes travel: the wire, as a
 * shaped link's model says, else as long as moving the bytes took this rank's CPU. What follows until the main thread goes on
 * is a wait for a core again: the bytes were there, and the threads that hand them over were not running.
 */
export function waitsOf(records: readonly StepRecord[]): ReadonlyMap<number, readonly WaitPart[]> {
  const arrivals = arrivalsOf(records);
  return new Map(
    records.map(({ rank, collectives }) => [
      rank,
      collectives
        .filter(({ exposed }) => exposed > 0)
        .flatMap((event) => partsOf(event, rank, arrivals.get(keyOf(event)) ?? []))
        .sort((a, b) => a.start - b.start),
    ]),
  );
}

/** Sums of some stretches by kind. */
export function waitSecondsOf(parts: readonly WaitPart[]): WaitSeconds {
  const sums = { ...NO_WAITS };
  for (const { kind, start, end } of parts) sums[kind] += end - start;
  return sums;
}

/** Sums kind by kind. */
export function plusWaits(a: WaitSeconds = NO_WAITS, b: WaitSeconds): WaitSeconds {
  return {
    wire: a.wire + b.wire,
    peer: a.peer + b.peer,
    core: a.core + b.core,
    unknown: a.unknown + b.unknown,
  };
}

/** All kinds together. */
export function totalWait({ wire, peer, core, unknown }: WaitSeconds): Seconds {
  return wire + peer + core + unknown;
}

/** Ranks that a collective brings together have it under one key; the two ends of a message too. */
function keyOf({ group, ranks, number, op }: CollectiveRecord): string {
  return [group, ranks.join(), op === 'send' || op === 'recv' ? 'pair' : op, number].join('\u0000');
}

function arrivalsOf(records: readonly StepRecord[]): Map<string, Arrived[]> {
  const found = new Map<string, Arrived[]>();
  for (const record of records) {
    for (const [event, mainLacked] of withLack(record)) {
      const { posted, progress } = event;
      const arrived = { rank: record.rank, progress, mainLacked, posted };
      const known = found.get(keyOf(event));
      if (known === undefined) found.set(keyOf(event), [arrived]);
      else known.push(arrived);
    }
  }
  return found;
}

/** How long the main thread lacked a core before each posting, since it last went on after a wait or began the step. */
function withLack({ start, startCpu, collectives }: StepRecord): [Told, Seconds][] {
  const told = collectives.filter((event): event is Told => event.progress !== undefined);
  const waited = told.filter(({ exposed }) => exposed > 0);
  return told.map((event) => {
    const before = waited.filter(({ progress }) => progress.resumed <= event.posted);
    const last = before.reduce<Told | undefined>(
      (a, b) => (a === undefined || b.progress.resumed > a.progress.resumed ? b : a),
      undefined,
    );
    const [at, cpu] =
      last === undefined ? [start, startCpu] : [last.progress.resumed, last.progress.resumedCpu];
    if (cpu === undefined) return [event, 0];
    const late = last === undefined ? 0 : lateAfter(last);
    return [event, late + Math.max(0, event.posted - at - (event.progress.postedCpu - cpu))];
  });
}

/** How long after a collective's end on this rank its main thread went on. */
function lateAfter({ ended, exposed, progress: { resumed } }: Told): Seconds {
  return Math.min(exposed, Math.max(0, resumed - ended));
}

function partsOf(event: CollectiveRecord, rank: number, arrivals: readonly Arrived[]): WaitPart[] {
  const { exposed, progress } = event;
  if (progress === undefined) {
    const from = Math.max(event.posted, event.ended - exposed);
    return [{ kind: 'unknown', event, start: from, end: from + exposed }];
  }
  const start = progress.resumed - exposed;
  const within = (at: Seconds): Seconds => Math.min(progress.resumed, Math.max(start, at));
  const last = arrivals.reduce((a, b) => (b.progress.arrived > a.progress.arrived ? b : a));
  const came = within(last.progress.arrived);
  const landed = within(Math.max(last.progress.arrived, event.started) + progress.carried);
  const borders = [start, ...untilCame(last, rank, start, came), came, landed, progress.resumed];
  const kinds: readonly WaitKind[] = ['wire', 'peer', 'core', 'wire', 'core'];
  return kinds.flatMap((kind, i): WaitPart[] => {
    const [from, to] = [borders[i] ?? start, borders[i + 1] ?? start];
    return to > from ? [{ kind, event, start: from, end: to }] : [];
  });
}

/** Until when the last one's bytes queued behind other bytes, and from when on it lacked a core. */
function untilCame(
  { rank: lastRank, progress, posted, mainLacked }: Arrived,
  rank: number,
  start: Seconds,
  came: Seconds,
): [Seconds, Seconds] {
  const isQueued = progress.free > posted;
  // Whoever is last itself had posted before it waited: its other thread copies its bytes, or has no core for that.
  const lacked = progress.lacked + (isQueued || lastRank === rank ? 0 : mainLacked);
  const work = Math.max(start, came - lacked);
  if (lastRank === rank) return [work, work];
  const queued = isQueued ? Math.min(came, Math.max(start, progress.free)) : start;
  return [queued, Math.max(queued, work)];
}
