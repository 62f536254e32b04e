import type { CollectiveProgress, Seconds } from '../core';
import type { CollectiveRecord, StepRecord } from './record';

/** The kinds of waits, by what the rank waits for; 'unknown' if the events do not show it. */
export const WAIT_KINDS = ['wire', 'peer', 'core', 'unknown'] as const;
export type WaitKind = (typeof WAIT_KINDS)[number];

/** A part of the time in which the main thread waited. Times are by the machine's clock. */
export interface WaitPart {
  readonly kind: WaitKind;
  /** The awaited collective. */
  readonly event: CollectiveRecord;
  readonly start: Seconds;
  readonly end: Seconds;
}

/** Returns the value of `of` for each kind of wait. */
export function byWaitKind<T>(of: (kind: WaitKind) => T): Readonly<Record<WaitKind, T>> {
  return { wire: of('wire'), peer: of('peer'), core: of('core'), unknown: of('unknown') };
}

/** Seconds by kind; they add up to the exposed wait. */
export type WaitSeconds = Readonly<Record<WaitKind, Seconds>>;

const NO_WAITS: WaitSeconds = { wire: 0, peer: 0, core: 0, unknown: 0 };

type TimedCollective = CollectiveRecord & { readonly progress: CollectiveProgress };

/** A rank's collective, and how long the main thread lacked a core between its last wait and the posting of this collective. */
interface Arrived {
  readonly rank: number;
  readonly event: TimedCollective;
  readonly mainLacked: Seconds;
  /** Returns the rank's previous collective in the same queue as `event`. */
  readonly before?: () => TimedCollective | undefined;
}

/** The ranks' collectives, by the key that `keyOf` returns. */
type Arrivals = ReadonlyMap<string, readonly Arrived[]>;

/**
 * Returns what each rank of a step waited for, rank by rank, in order of time.
 *
 * [Note: kinds of waits] A wait for a collective has three parts. In the first part, until the last rank arrives, the rank
 * waits for that peer; but the time in which the peer lacked a core since the peer's own last wait counts as a wait for a core.
 * (The time without a core is wall time minus the thread's CPU time, on the peer's main thread until it posts, and on the
 * thread that runs the collective until it arrives.) If the last rank's thread was in another collective before,
 * the thread's waits in that collective count in place of the wait for this peer. The second part is a wait for the wire, while
 * the bytes travel: for the time of a shaped link's model, else for the CPU time that this rank needed to move the bytes. The
 * third part, until the main thread continues, is a wait for a core, because the bytes had arrived, but the threads that pass
 * them on were not running.
 */
export function waitsOf(records: readonly StepRecord[]): ReadonlyMap<number, readonly WaitPart[]> {
  const arrivals = arrivalsOf(records);
  return new Map(
    records.map(({ rank, collectives }) => [
      rank,
      collectives
        .filter(({ exposed }) => exposed > 0)
        .flatMap((event) => partsOf(event, rank, arrivals))
        .sort((a, b) => a.start - b.start),
    ]),
  );
}

/** Adds up parts of waits by kind. */
export function waitSecondsOf(parts: readonly WaitPart[]): WaitSeconds {
  const sums = { ...NO_WAITS };
  for (const { kind, start, end } of parts) sums[kind] += end - start;
  return sums;
}

/** Adds two sums, kind by kind. */
export function plusWaits(a: WaitSeconds = NO_WAITS, b: WaitSeconds): WaitSeconds {
  return {
    wire: a.wire + b.wire,
    peer: a.peer + b.peer,
    core: a.core + b.core,
    unknown: a.unknown + b.unknown,
  };
}

/** Returns the sum of all kinds. */
export function totalWait({ wire, peer, core, unknown }: WaitSeconds): Seconds {
  return wire + peer + core + unknown;
}

/** Returns a collective's key, which is the same on all its ranks; a send has the same key as its recv. */
function keyOf({ group, ranks, number, op }: CollectiveRecord): string {
  return [group, ranks.join(), op === 'send' || op === 'recv' ? 'pair' : op, number].join('\u0000');
}

function arrivalsOf(records: readonly StepRecord[]): Arrivals {
  const arrivalsByKey = new Map<string, Arrived[]>();
  for (const record of records) {
    const eventsWithLack = withLack(record);
    const others = eventsWithLack.map(([event]) => event);
    for (const [event, mainLacked] of eventsWithLack) {
      const before = (): TimedCollective | undefined => previousOf(event, others);
      const arrived = { rank: record.rank, event, mainLacked, before };
      const known = arrivalsByKey.get(keyOf(event));
      if (known === undefined) arrivalsByKey.set(keyOf(event), [arrived]);
      else known.push(arrived);
    }
  }
  return arrivalsByKey;
}

/** Returns the last collective in the queue of `event` at which the rank arrived before `event` could begin. */
function previousOf(event: TimedCollective, all: readonly TimedCollective[]): TimedCollective | undefined {
  const isBefore = (candidate: TimedCollective): boolean =>
    candidate.async &&
    candidate.group === event.group &&
    candidate.number < event.number &&
    candidate.progress.arrived < event.progress.free;
  return latest(all.filter(isBefore), ({ progress }) => progress.arrived);
}

/** Returns the value with the greatest time; if several values have this time, returns the first of them. */
function latest<T>(values: readonly T[], timeOf: (value: T) => Seconds): T | undefined {
  const [first, ...others] = values;
  return others.reduce((a, b) => (a === undefined || timeOf(b) > timeOf(a) ? b : a), first);
}

/** Returns each collective, and how long the main thread lacked a core from its last wait (or the step's start) to posting. */
function withLack({ start, startCpu, collectives }: StepRecord): [TimedCollective, Seconds][] {
  const events = collectives.filter((event): event is TimedCollective => event.progress !== undefined);
  const waited = events.filter(({ exposed }) => exposed > 0);
  return events.map((event) => {
    const before = waited.filter(({ progress }) => progress.resumed <= event.posted);
    const last = latest(before, ({ progress }) => progress.resumed);
    const [at, cpu] =
      last === undefined ? [start, startCpu] : [last.progress.resumed, last.progress.resumedCpu];
    if (cpu === undefined) return [event, 0];
    const late = last === undefined ? 0 : lateAfter(last);
    return [event, late + Math.max(0, event.posted - at - (event.progress.postedCpu - cpu))];
  });
}

/** Returns the time from a collective's end on this rank until this rank's main thread continued. */
function lateAfter({ ended, exposed, progress: { resumed } }: TimedCollective): Seconds {
  return Math.min(exposed, Math.max(0, resumed - ended));
}

function partsOf(event: CollectiveRecord, rank: number, arrivals: Arrivals): WaitPart[] {
  const { exposed, progress } = event;
  if (progress === undefined) {
    const from = Math.max(event.posted, event.ended - exposed);
    return [{ kind: 'unknown', event, start: from, end: from + exposed }];
  }
  const { resumed } = progress;
  const stretches = stretchesOf({ ...event, progress }, rank, arrivals, resumed - exposed, resumed);
  return stretches.filter(({ start, end }) => end > start).map((stretch) => ({ ...stretch, event }));
}

type Stretch = Omit<WaitPart, 'event'>;

/** Returns what a rank in a collective waits for between two times. */
function stretchesOf(
  event: TimedCollective,
  rank: number,
  arrivals: Arrivals,
  from: Seconds,
  to: Seconds,
): Stretch[] {
  const own: Arrived = { rank, event, mainLacked: 0 };
  const all = [own, ...(arrivals.get(keyOf(event)) ?? [])];
  const last = latest(all, (arrived) => arrived.event.progress.arrived) ?? own;
  const { progress, posted } = last.event;
  const within = (at: Seconds, least = from): Seconds => Math.min(to, Math.max(least, at));
  const came = within(progress.arrived);
  const landed = within(Math.max(progress.arrived, event.started) + event.progress.carried);
  const isQueued = progress.free > posted;
  const isOwn = last.rank === rank;
  // If this rank is the last rank to arrive, its comm thread copies bytes or lacks a core; its main thread has already posted
  // the collective.
  const lacked = progress.lacked + (isQueued || isOwn ? 0 : last.mainLacked);
  const begun = isQueued ? Math.min(came, within(progress.free)) : from;
  const works = Math.max(begun, Math.min(came, progress.arrived - lacked));
  return [
    ...queueOf(last, arrivals, from, begun),
    { kind: isOwn ? 'wire' : 'peer', start: begun, end: works },
    { kind: 'core', start: works, end: came },
    { kind: 'wire', start: came, end: landed },
    { kind: 'core', start: landed, end: to },
  ];
}

/**
 * Returns what the rank that arrives last waited for in its previous collective, which kept the rank's thread busy until the next
 * collective could begin.
 */
function queueOf(last: Arrived, arrivals: Arrivals, from: Seconds, to: Seconds): Stretch[] {
  if (to <= from) return [];
  const before = last.before?.();
  if (before === undefined) return [{ kind: 'peer', start: from, end: to }];
  return stretchesOf(before, last.rank, arrivals, from, to);
}
