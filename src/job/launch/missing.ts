import { now, type Seconds } from '../../core/units';
import { rankNames } from '../control/selection';
import type { Situation, WaitingIn } from '../control/situation';
import { describeCollective, findWaits } from './why';

/** How long a rank may wait for an idle rank, because another call with the collective may be on its way. */
const GRACE_SECONDS: Seconds = 0.5;

/** Time between two checks. */
const POLL_MS = 125;

/** A collective that can never complete. */
export interface MissingCollective {
  readonly text: string;
  /** The ranks that ended their work without calling it. */
  readonly idle: readonly number[];
}

/** Finds ranks that have waited longer than the grace period for the call of a rank that is idle as long. */
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
  return undefined;
}

/**
 * The function that the user called. A library function writes its own name as the module, as 'FSDP.optimStateDict()'.
 */
function calledAs({ op, module }: WaitingIn): string {
  return module.endsWith('()') ? `${module}, not rank 0 alone` : op;
}

/**
 * Checks at intervals and reports a finding after two checks in a row, because between two collectives of a comm thread
 * a rank can look idle for a moment. The returned function ends the checks.
 */
export function watchForMissing(
  look: () => Promise<MissingCollective | undefined>,
  found: (missing: MissingCollective) => void,
): () => void {
  let before: string | undefined;
  let timer: NodeJS.Timeout | undefined;
  let hasEnded = false;
  const again = (): void => {
    timer = setTimeout(() => {
      void look().then((missing) => {
        if (hasEnded) return;
        if (missing !== undefined && missing.text === before) found(missing);
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
