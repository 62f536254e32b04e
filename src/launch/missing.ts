import { now, rankNames, type Seconds } from '../core';
import type { Situation, WaitingIn } from './control/situation';
import { findDeadlock } from './deadlock';
import { describeCollective, findWaits, GRACE_SECONDS, type MissingCollective } from './waits';

/** Time between two checks. */
const POLL_MS = 125;
/** While all ranks work, this number of checks is left out after each check. */
const MOST_SKIPPED = 7;

/**
 * Finds ranks that have waited longer than the grace period for a rank that has also been idle for longer than this period, and
 * ranks that wait for each other.
 */
export function findMissing(
  situations: ReadonlyMap<number, Situation>,
  idle: readonly number[],
  at: Seconds = now(),
): MissingCollective | undefined {
  const idleLong = idle.filter((rank) => {
    const situation = situations.get(rank);
    return situation?.state === 'idle' && !situation.hasBackground && at - situation.since > GRACE_SECONDS;
  });
  for (const wait of findWaits(situations)) {
    const absent = wait.waitsFor.filter((rank) => idleLong.includes(rank));
    if (absent.length === 0 || at - wait.since <= GRACE_SECONDS) continue;
    const verb = wait.ranks.length === 1 ? 'waits' : 'wait';
    const text =
      `${rankNames(wait.ranks)} ${verb} in ${describeCollective(wait.collective)}, but ${rankNames(absent)} ended without calling it; ` +
      `let every rank of the group call ${calledAs(wait.collective)}, or make a group of the ranks that call it`;
    return { text, idle: absent };
  }
  return findDeadlock(situations, at);
}

/**
 * Checks at intervals, and reports a missing collective only if two checks in a row find it, because between two collectives
 * of a comm thread a rank can look idle for a moment. While `isBusy` is true, checks are rarer. The returned function ends the checks.
 */
export function watchForMissing(
  look: () => Promise<MissingCollective | undefined>,
  report: (missing: MissingCollective) => void,
  isBusy: () => boolean,
): () => void {
  let before: string | undefined;
  let numSkipped = 0;
  let timer: NodeJS.Timeout | undefined;
  let hasEnded = false;
  const again = (): void => {
    timer = setTimeout(() => {
      numSkipped = isBusy() && numSkipped < MOST_SKIPPED ? numSkipped + 1 : 0;
      if (numSkipped > 0) {
        again();
        return;
      }
      void look().then((missing) => {
        if (hasEnded) return;
        if (missing !== undefined && missing.text === before) report(missing);
        before = missing?.text;
        again();
      });
    }, POLL_MS);
  };
  again();
  return () => {
    hasEnded = true;
    clearTimeout(timer);
  };
}

/**
 * Returns the function that the user called. A library function writes its own name as the module, as 'FSDP.optimStateDict()'.
 */
function calledAs({ op, module }: WaitingIn): string {
  return module.endsWith('()') ? `${module}, not rank 0 alone` : op;
}
