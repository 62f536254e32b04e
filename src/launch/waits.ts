import type { Seconds } from '../core';
import { isPair, type Situation, streamOf, type WaitingIn } from './control/situation';

/** Ranks that wait in one collective, and the ranks that have not called it. */
export interface CollectiveWait {
  readonly ranks: readonly number[];
  readonly collective: WaitingIn;
  /** When the first of the waiting ranks began to wait. */
  readonly since: Seconds;
  readonly waitsFor: readonly number[];
}

/** How long a rank may wait for an idle rank, because the idle rank may soon get a call with the collective. */
export const GRACE_SECONDS: Seconds = 0.5;

/** A collective that can never complete. */
export interface MissingCollective {
  readonly text: string;
  /** The ranks that ended their work without calling this collective; in a deadlock, the ranks that wait for each other. */
  readonly idle: readonly number[];
}

/** Groups ranks that wait in the same collective, and says which ranks have not called it. */
export function findWaits(situations: ReadonlyMap<number, Situation>): CollectiveWait[] {
  const waits = new Map<string, { ranks: number[]; collective: WaitingIn; since: Seconds }>();
  for (const [rank, { waiting, since }] of [...situations].sort(([a], [b]) => a - b)) {
    if (waiting === undefined) continue;
    const key = `${waiting.group} ${waiting.number} ${waiting.op} ${waiting.ranks.join(',')}`;
    const wait = waits.get(key) ?? { ranks: [], collective: waiting, since };
    wait.ranks.push(rank);
    waits.set(key, { ...wait, since: Math.min(wait.since, since) });
  }
  return [...waits.values()].map((wait) => ({
    ...wait,
    waitsFor: othersOf(wait).filter((rank) => !hasCalled(situations.get(rank), wait.collective)),
  }));
}

/** Returns the ranks for which the waiting ranks may wait: for a send or recv, only the peer. */
function othersOf({ collective }: Pick<CollectiveWait, 'collective'>): readonly number[] {
  return isPair(collective) ? collective.ranks.slice(1) : collective.ranks;
}

/** Whether a rank is in the collective, or in the other side of a send or recv. */
function hasCalled(situation: Situation | undefined, collective: WaitingIn): boolean {
  const { number } = collective;
  if (situation === undefined) return false;
  const { waiting, lastCalled } = situation;
  if (!isPair(collective)) {
    return !isAnother(waiting, collective) && (lastCalled[streamOf(collective)] ?? 0) >= number;
  }
  const op = collective.op === 'send' ? 'recv' : 'send';
  const side = streamOf({ ...collective, op, ranks: collective.ranks.toReversed() });
  // A rank that waits in the other side has called it.
  const isThere = waiting !== undefined && streamOf(waiting) === side;
  return isThere || (lastCalled[side] ?? 0) >= number;
}

/** Whether a rank waits in another operation that has the number of this collective. Each of the two then waits for ever. */
function isAnother(waiting: WaitingIn | undefined, { op, group, number, isUnchecked }: WaitingIn): boolean {
  if (isUnchecked !== true || waiting?.isUnchecked !== true || isPair(waiting)) return false;
  return waiting.group === group && waiting.number === number && waiting.op !== op;
}

/** Returns a text such as "barrier #41 (cell 8, line 1)", with the group's name unless the group is the whole world. */
export function describeCollective({
  op,
  number,
  group,
  cell,
  line,
  module,
  detail = '',
}: WaitingIn): string {
  const places = [
    detail,
    group === 'world' ? '' : `group ${group}`,
    module === '' ? '' : `module ${module}`,
    cell === undefined ? '' : `cell ${cell}`,
    line === undefined ? '' : `line ${line}`,
  ].filter((place) => place !== '');
  return `${op} #${number}${places.length === 0 ? '' : ` (${places.join(', ')})`}`;
}
