import { now, rankNames, type Seconds } from '../core';
import { isPair, type Situation } from './control/situation';
import {
  type CollectiveWait,
  describeCollective,
  findWaits,
  GRACE_SECONDS,
  type MissingCollective,
} from './waits';

/**
 * [Note: deadlocks] A rank's wait ends only when all ranks that it waits for have called the other side. A rank that waits calls
 * nothing more, except what it has already started asynchronously. So if each of several ranks waits for the next one in a circle
 * and has started nothing else, none of them can go on: two ranks that both receive first, or three that send around a ring.
 * PyTorch lets such ranks wait until the group's timeout.
 *
 * Returns the report about ranks in such a circle that have waited longer than the grace period; undefined if there is none.
 */
export function findDeadlock(
  situations: ReadonlyMap<number, Situation>,
  at: Seconds = now(),
): MissingCollective | undefined {
  const stuck = new Map([...situations].filter(([, situation]) => isStuck(situation, at)));
  const circle = circleIn(findWaits(stuck));
  if (circle === undefined) return undefined;
  const ranks = circle.map(({ rank }) => rank);
  return { text: `${describeCircle(circle)}. ${adviceFor(circle)}`, idle: ranks };
}

/** Returns the sentence for the first circle of ranks that wait for each other; undefined if there is none. */
export function explainCircle(waits: readonly CollectiveWait[]): string | undefined {
  const circle = circleIn(waits);
  return circle && `${rankNames(circle.map(({ rank }) => rank))} wait for each other. ${adviceFor(circle)}`;
}

function isStuck({ waiting, since, numPosted }: Situation, at: Seconds): boolean {
  return waiting !== undefined && numPosted === 0 && at - since > GRACE_SECONDS;
}

/** A rank of a circle, and the wait that holds it. */
interface Link {
  readonly rank: number;
  readonly wait: CollectiveWait;
}

function circleIn(waits: readonly CollectiveWait[]): Link[] | undefined {
  const waitOf = new Map(waits.flatMap((wait) => wait.ranks.map((rank) => [rank, wait] as const)));
  const left = new Set(waitOf.keys());
  const search = (path: readonly Link[], rank: number): Link[] | undefined => {
    const from = path.findIndex((link) => link.rank === rank);
    if (from >= 0) return path.slice(from);
    const wait = waitOf.get(rank);
    if (wait === undefined || !left.delete(rank)) return undefined;
    for (const next of wait.waitsFor) {
      const circle = search([...path, { rank, wait }], next);
      if (circle !== undefined) return circle;
    }
    return undefined;
  };
  for (const rank of waitOf.keys()) {
    const circle = search([], rank);
    if (circle !== undefined) return circle;
  }
  return undefined;
}

function describeCircle(circle: readonly Link[]): string {
  const parts = circle.map(({ rank, wait }, i) => {
    const next = circle[(i + 1) % circle.length]?.rank;
    return `rank ${rank} in ${describeCollective(wait.collective)} for rank ${next}`;
  });
  return `${rankNames(circle.map(({ rank }) => rank))} wait for each other and cannot go on: ${parts.join(', ')}`;
}

function adviceFor(circle: readonly Link[]): string {
  const calls = circle.map(({ wait }) => wait.collective);
  if (calls.every(({ op }) => op === 'recv')) return 'Let one of them send before it receives';
  if (calls.every(({ op }) => op === 'send'))
    return 'A send ends when the other rank receives: let one of them receive first, or send with { asyncOp: true } and wait later';
  return calls.every(isPair)
    ? 'Let one of them make its calls in the other order, or start them with { asyncOp: true } and wait later'
    : 'Let all ranks make the calls of all their groups in the same order';
}
