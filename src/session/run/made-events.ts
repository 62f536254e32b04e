import { rankNames } from '../../core';
import type { DifferingEvent } from '../../figures';
import type { MadeEvent, MadePart } from '../../launch';
import type { RunParts } from './calls';

/** A digest's place: rank, event and part. */
interface Spot {
  readonly rank: number;
  readonly event: number;
  readonly part: number;
}

/** Two digests that differ: the first is the one that is described. */
interface Pair {
  readonly spots: readonly [Spot, Spot];
  readonly made: MadeEvent;
  readonly part: MadePart;
}

/** What differs first, with a pair whose values say by how much. */
interface FoundEvent {
  readonly ranks: readonly number[];
  readonly made: MadeEvent;
  readonly pair: Pair;
}

type Recorded = Pick<RunParts, 'calls' | 'number' | 'history' | 'made'>;

/**
 * Returns the first event whose values differ between two runs after the same step; null if there is none, or if a run recorded
 * nothing. Values differ if their bits do; if the runs compute in different ways, if they differ by more than `tolerance`.
 */
export async function eventBetweenRuns(
  [left, right]: readonly [Recorded, Recorded],
  tolerance: number | null,
): Promise<DifferingEvent | null> {
  const pairs = left.made.byRank.map((events, rank) =>
    pairsOf(events, right.made.byRank[rank] ?? [], [rank, rank], tolerance),
  );
  const times = timesOfEvents(left.made.byRank);
  const first = firstOf(
    pairs.map((all) => all[0]),
    times,
  );
  if (first === undefined) return null;
  const isFirst = ({ made: { key, call } }: Pair): boolean =>
    key === first.made.key && call === first.made.call;
  const ranks = pairs.flatMap(([pair], rank) => (pair !== undefined && isFirst(pair) ? rank : []));
  // A collective's values have no names, so a later event names the parameter.
  const named = first.part.name === '' ? (firstNamed(pairs, times) ?? first) : first;
  return described(
    { ranks, made: first.made, pair: named },
    [left, right],
    tolerance === null
      ? 'the other run'
      : 'the other run (the runs pass different points; compared are values that both make)',
  );
}

/**
 * Returns the first event of a recorded step after which values differ between ranks that must have equal values; null if there is
 * none. The odd ranks are those that differ from most.
 */
export async function eventBetweenRanks(run: Recorded): Promise<DifferingEvent | null> {
  const { byRank } = run.made;
  const spots = new Map<string, Map<number, Spot[]>>();
  const times = timesOfEvents(byRank);
  const firstTime = new Map<string, number>();
  for (const [rank, events] of byRank.entries())
    for (const [event, made] of events.entries())
      made.parts.forEach((digest, part) => {
        const key = sharedKey(made, digest);
        if (key === null) return;
        const time = times[rank]?.[event] ?? 0;
        firstTime.set(key, Math.min(time, firstTime.get(key) ?? time));
        const bySum = spots.get(key) ?? new Map<number, Spot[]>();
        spots.set(key, bySum.set(digest.sum, [...(bySum.get(digest.sum) ?? []), { rank, event, part }]));
      });
  const differing = [...spots].filter(([, bySum]) => bySum.size > 1);
  const [first] = differing.sort(([a], [b]) => (firstTime.get(a) ?? 0) - (firstTime.get(b) ?? 0));
  if (first === undefined) return null;
  const [usual = [], ...odd] = [...first[1].values()].toSorted((a, b) => b.length - a.length);
  const [spot, equal] = [odd[0]?.[0], usual[0]];
  if (spot === undefined || equal === undefined) return null;
  const made = byRank[spot.rank]?.[spot.event];
  const part = made?.parts[spot.part];
  if (made === undefined || part === undefined) return null;
  const ranks = odd.flat().map(({ rank }) => rank);
  const pair = { spots: [spot, equal], made, part } as const;
  const others = rankNames(usual.map(({ rank }) => rank));
  return described({ ranks, made, pair }, [run, run], others);
}

/** The key under which ranks must have equal values; null if they need not. */
function sharedKey(event: MadeEvent, { name, place }: MadePart): string | null {
  const isOfAll = ['parameters', 'reduced', 'update'].includes(event.made) && name !== '';
  if (!isOfAll && event.sharedBy === null) return null;
  return `${event.key} ${name} ${place} ${event.sharedBy?.join() ?? ''}`;
}

/** Returns the pairs of equal places that differ, in the order of the first run's events. */
function pairsOf(
  events: readonly MadeEvent[],
  others: readonly MadeEvent[],
  [rank, otherRank]: readonly [number, number],
  tolerance: number | null,
): readonly Pair[] {
  // Runs that compute in different ways call different collectives.
  const isIn = ({ made }: MadeEvent): boolean =>
    tolerance === null || (made !== 'contribution' && made !== 'result');
  const byKey = new Map(others.map((made, event) => [made.key, { made, event }]));
  return events.flatMap((made, event) => {
    const twin = byKey.get(made.key);
    if (twin === undefined || !isIn(made)) return [];
    return made.parts.flatMap((part, i): Pair[] => {
      const j = twin.made.parts.findIndex(({ name, place }) => name === part.name && place === part.place);
      const same = twin.made.parts[j];
      if (same === undefined || !differs(part, same, tolerance)) return [];
      const spots = [
        { rank, event, part: i },
        { rank: otherRank, event: twin.event, part: j },
      ] as const;
      return [{ spots, made, part }];
    });
  });
}

function differs(left: MadePart, right: MadePart, tolerance: number | null): boolean {
  if (left.sum === right.sum) return false;
  if (tolerance === null) return true;
  const limit = tolerance * Math.max(left.norm, right.norm);
  const changes = [left.norm - right.norm, ...left.marks.map((mark, i) => mark - (right.marks[i] ?? 0))];
  return !changes.every((change) => Math.abs(change) <= limit);
}

/** Returns the pair whose event has the smallest time. */
function firstOf(pairs: readonly (Pair | undefined)[], times: readonly number[][]): Pair | undefined {
  const timeOf = ({ spots: [{ rank, event }] }: Pair): number => times[rank]?.[event] ?? 0;
  return pairs.reduce(
    (first, pair) =>
      pair !== undefined && (first === undefined || timeOf(pair) < timeOf(first)) ? pair : first,
    undefined,
  );
}

function firstNamed(pairs: readonly (readonly Pair[])[], times: readonly number[][]): Pair | undefined {
  return firstOf(
    pairs.map((all) => all.find(({ part }) => part.name !== '')),
    times,
  );
}

/** What an event made, with its verb. */
const SUBJECTS: Readonly<Record<MadeEvent['made'], string>> = {
  batch: 'its batch is',
  parameters: 'its whole parameters are',
  output: 'its output is',
  gradients: 'its own gradients are',
  contribution: 'what it brings is',
  result: 'its result is',
  reduced: 'its gradients before the update are',
  update: 'its parameters after the update are',
};

async function described(
  { ranks, made, pair }: FoundEvent,
  [left, right]: readonly [Recorded, Recorded],
  than: string,
): Promise<DifferingEvent> {
  const [mine, its] = [await valuesAt(left, pair.spots[0]), await valuesAt(right, pair.spots[1])];
  const amount = mine === null || its === null ? null : differenceOf(mine, its);
  const parameter = pair.part.name === '' ? null : pair.part.name;
  const link = pair.made === made ? ', in ' : '; after it, ';
  const where = parameter === null ? '' : `${link}${parameter}`;
  return {
    ranks,
    event: made.point,
    parameter,
    absolute: amount?.absolute ?? null,
    relative: amount?.relative ?? null,
    text: `${rankNames(ranks)}: ${made.point}: ${SUBJECTS[made.made]} the first to differ from ${than}${where}${amountText(amount)}`,
  };
}

function amountText(amount: ReturnType<typeof differenceOf> | null): string {
  if (amount === null) return '';
  const { absolute, relative } = amount;
  if (!Number.isFinite(absolute)) return ', which is not a number';
  return ` by ${short(absolute)} (${short(relative)} of its size)`;
}

/** Writes two digits. */
function short(value: number): string {
  return String(Number(value.toPrecision(2)));
}

async function valuesAt(
  { calls, number: run, history }: Recorded,
  { rank, event, part }: Spot,
): Promise<Float32Array | null> {
  const work = { kind: 'madeValues', run, rank, event, part } as const;
  const all = await calls.on<Float32Array | null>(history.phase.world, work);
  return all[rank] ?? null;
}

function differenceOf(left: Float32Array, right: Float32Array): { absolute: number; relative: number } {
  let [absolute, size] = [0, 0];
  left.forEach((value, i) => {
    const its = right[i] ?? 0;
    size = Math.max(size, Math.abs(value) || 0, Math.abs(its) || 0);
    const difference = Math.abs(value - its);
    // A difference that is not a number counts as the greatest.
    if (!Number.isNaN(absolute) && !(difference <= absolute)) absolute = difference;
  });
  return { absolute, relative: absolute === 0 ? 0 : absolute / size };
}

/**
 * Returns a time for each event of each rank, such that an event has a greater time than all events on which its values can depend: the
 * rank's own events before it and, for values that a rank gets from a collective, what its ranks bring.
 * Source: Lamport 1978, "Time, Clocks, and the Ordering of Events in a Distributed System"
 */
function timesOfEvents(byRank: readonly (readonly MadeEvent[])[]): number[][] {
  const times: number[][] = byRank.map(() => []);
  /** By collective, how many contributions have no time yet, and the greatest time of the others. */
  const brought = new Map<string, { missing: number; time: number }>();
  for (const { made, call } of byRank.flat()) {
    if (made !== 'contribution' || call === null) continue;
    brought.set(call, { missing: (brought.get(call)?.missing ?? 0) + 1, time: 0 });
  }
  const give = (rank: number, isForced: boolean): boolean => {
    const event = byRank[rank]?.[times[rank]?.length ?? 0];
    if (event === undefined) return false;
    const own = event.call === null ? undefined : brought.get(event.call);
    const isGot = own !== undefined && event.made !== 'contribution';
    if (isGot && own.missing > 0 && !isForced) return false;
    const time = 1 + Math.max(times[rank]?.at(-1) ?? 0, isGot ? own.time : 0);
    times[rank]?.push(time);
    if (own !== undefined && !isGot) {
      own.missing--;
      own.time = Math.max(own.time, time);
    }
    return true;
  };
  const ranks = byRank.map((_, rank) => rank);
  for (let isForced = false; ; ) {
    let hasGiven = false;
    for (const rank of ranks) while (give(rank, isForced && !hasGiven)) hasGiven = true;
    if (!hasGiven && isForced) return times;
    // Events that were not recorded must not keep the others from a time.
    isForced = !hasGiven;
  }
}
