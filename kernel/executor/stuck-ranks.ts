import { AGAIN_SECONDS } from '../../src/cell/native-call';
import { rankNames } from '../../src/job/control/selection';
import type { BusyRank } from '../../src/job/launch/call';
import type { Job } from '../../src/job/run/job';
import { registeredJobs } from '../../src/job/run/registry';

/** A rank that an interrupt may not stop. */
export interface StuckRank extends BusyRank {
  readonly job: Job;
}

/** Ranks of all jobs that run work now. */
export function stuckRanks(): readonly StuckRank[] {
  return registeredJobs().flatMap((job) => job.busyRanks().map((rank) => ({ ...rank, job })));
}

/** The message about ranks that an interrupt has not stopped; see [Note: native calls]. */
export function notStopped(ranks: readonly StuckRank[]): string {
  const names = rankNames(ranks.map(({ rank }) => rank));
  const places = ranks.map(({ rank, pid, activity }) => `rank ${rank} (pid ${pid}) ${activity}`);
  const whose = ranks.length === 1 ? 'its variables are' : 'their variables are';
  return (
    `The cell has not stopped: ${places.join('; ')}. ` +
    `Interrupt again within ${AGAIN_SECONDS} s to end ${names}: ${whose} lost then, and the job must be launched again; ` +
    'the variables of the notebook stay.\n'
  );
}
