import { AGAIN_SECONDS, PATIENCE_MS } from '../../src/cell/native-call';
import { now, type Seconds } from '../../src/core/units';
import { rankNames } from '../../src/job/control/selection';
import type { BusyRank } from '../../src/job/launch/call';
import type { Job } from '../../src/job/run/job';
import { registeredJobs } from '../../src/job/run/registry';

interface StuckRank extends BusyRank {
  readonly job: Job;
}

/**
 * Handles ranks that an interrupt does not stop: reports the call that they are in, and kills them on the next
 * interrupt; see [Note: native calls].
 */
export class StuckRanks {
  readonly #say: (text: string) => void;
  #watched: object | undefined;
  #offer:
    | { readonly cell: object; readonly until: Seconds; readonly ranks: readonly StuckRank[] }
    | undefined;

  constructor(say: (text: string) => void) {
    this.#say = say;
  }

  /** Watches the ranks that an interrupted cell waits for; `isRunning` says whether the cell still runs. */
  watch(cell: object, isRunning: () => boolean): void {
    if (this.#watched === cell) return;
    this.#watched = cell;
    setTimeout(() => {
      this.#watched = undefined;
      const ranks = isRunning() ? busyRanks() : [];
      if (ranks.length > 0) this.#report(cell, ranks);
    }, PATIENCE_MS).unref();
  }

  /** Kills the ranks that the message named; false if there are none. */
  async end(cell: object): Promise<boolean> {
    const offer = this.#offer;
    this.#offer = undefined;
    if (offer === undefined || offer.cell !== cell || now() > offer.until) return false;
    await Promise.all(offer.ranks.map(({ job, rank }) => job.kill(rank)));
    return true;
  }

  #report(cell: object, ranks: readonly StuckRank[]): void {
    const names = rankNames(ranks.map(({ rank }) => rank));
    const places = ranks.map(({ rank, pid, activity }) => `rank ${rank} (pid ${pid}) ${activity}`);
    const whose = ranks.length === 1 ? 'its variables are' : 'their variables are';
    this.#say(
      `The cell has not stopped: ${places.join('; ')}. ` +
        `Interrupt again within ${AGAIN_SECONDS} s to end ${names}: ${whose} lost then, and the job must be launched again; ` +
        'the variables of the notebook stay.\n',
    );
    this.#offer = { cell, until: now() + AGAIN_SECONDS, ranks };
  }
}

function busyRanks(): StuckRank[] {
  return registeredJobs().flatMap((job) => job.busyRanks().map((rank) => ({ ...rank, job })));
}
