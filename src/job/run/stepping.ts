import type { RankStep, StepGrant } from '../control/messages';

/*
 * [Note: grants] Ranks step without waiting for the launcher, but only as far as it has granted, and it grants the same to
 * all. To stop, it grants no more: every rank then ends after the same step, so the model is whole. One step beyond the
 * running one is granted, so that no rank waits for a message between two steps.
 */

/** Steps granted beyond those that all ranks have done. */
const LEAD = 2;

/** Steps that ranks are allowed to make at first. */
export function firstGrant(numSteps: number): StepGrant {
  return { granted: Math.min(LEAD, numSteps), isFinal: numSteps <= LEAD };
}

/** Gathers what ranks send of their steps, and says how far they may go on. */
export class Stepping {
  readonly #numSteps: number;
  readonly #numRanks: number;
  readonly #grant: (grant: StepGrant) => void;
  readonly #done: (steps: readonly RankStep[]) => void;
  /** By rank, what it has sent and the others have not. */
  readonly #waiting: RankStep[][];
  #numDone = 0;
  #granted: StepGrant;

  constructor(
    size: { readonly numSteps: number; readonly numRanks: number },
    grant: (grant: StepGrant) => void,
    done: (steps: readonly RankStep[]) => void,
  ) {
    this.#numSteps = size.numSteps;
    this.#numRanks = size.numRanks;
    this.#grant = grant;
    this.#done = done;
    this.#waiting = Array.from({ length: size.numRanks }, () => []);
    this.#granted = firstGrant(size.numSteps);
  }

  /** Steps that all ranks have done. */
  get numDone(): number {
    return this.#numDone;
  }

  /** A rank's next step. */
  receive(rank: number, step: RankStep): void {
    this.#waiting[rank]?.push(step);
    while (this.#waiting.every((steps) => steps.length > 0)) {
      const steps = this.#waiting.flatMap((queue) => queue.shift() ?? []);
      if (steps.length !== this.#numRanks) return;
      this.#numDone++;
      this.#goOn();
      this.#done(steps);
    }
  }

  /** Ranks end after what they were granted. */
  stop(): void {
    if (this.#granted.isFinal) return;
    this.#granted = { ...this.#granted, isFinal: true };
    this.#grant(this.#granted);
  }

  #goOn(): void {
    if (this.#granted.isFinal) return;
    const granted = Math.min(this.#numDone + LEAD, this.#numSteps);
    this.#granted = { granted, isFinal: granted === this.#numSteps };
    this.#grant(this.#granted);
  }
}
