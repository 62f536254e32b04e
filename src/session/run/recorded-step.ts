import type { MadeEvent } from '../../launch';

/** What ranks recorded in the newest recorded step, by rank. [Note: made values] */
export class MadeEvents {
  /** Whether the next steps are to be recorded. */
  isWanted = false;
  byRank: readonly (readonly MadeEvent[])[] = [];

  /** Runs `work`, whose last step is recorded; ranks of PyTorch record nothing. */
  async during(work: () => Promise<unknown>): Promise<void> {
    this.byRank = [];
    this.isWanted = true;
    try {
      await work();
    } finally {
      this.isWanted = false;
    }
  }
}
