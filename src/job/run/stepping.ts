import type { RankStep, StepGrant } from '../control/messages';

/*
 * [Note: grants] The launcher grants all ranks the same number of steps, and ranks run granted steps without waiting
 * for the launcher. To stop, the launcher grants no more steps: every rank then ends after the same step, so the model
 * is consistent. The launcher grants one step beyond the running one, so that no rank waits for a message between two
 * steps.
 */

/** Granted steps beyond those that all ranks have done. */
const LEAD = 2;

/** The first grant of a call. */
export function firstGrant(numSteps: number): StepGrant {
  return { granted: Math.min(LEAD, numSteps), isFinal: numSteps <= LEAD };
}

/** Gathers the ranks' reports of their steps, and grants further steps. */
export class Stepping {
  readonly #numSteps: number;
  readonly #grant: (grant: StepGrant) => void;
  readonly #done: (steps: readonly RankStep[]) => void;
  /** By rank, its steps that some other rank has not sent yet. */
  readonly #waiting: RankStep[][];
  /** Steps that all ranks have done. */
  numDone = 0;
  #granted: StepGrant;

  constructor(
    { numSteps, numRanks }: { readonly numSteps: number; readonly numRanks: number },
    grant: (grant: StepGrant) => void,
    done: (steps: readonly RankStep[]) => void,
  ) {
    this.#numSteps = numSteps;
    this.#grant = grant;
    this.#done = done;
    this.#waiting = Array.from({ length: numRanks }, () => []);
    this.#granted = firstGrant(numSteps);
  }

  /** Takes a rank's next step. */
  receive(rank: number, step: RankStep): void {
    this.#waiting[rank]?.push(step);
    while (this.#waiting.every((steps) => steps.length > 0)) {
      const steps = this.#waiting.flatMap((queue) => queue.shift() ?? []);
      this.numDone++;
      this.#goOn();
      this.#done(steps);
    }
  }

  /** Lets ranks end after the granted steps. */
  stop(): void {
    if (this.#granted.isFinal) return;
    this.#granted = { ...this.#granted, isFinal: true };
    this.#grant(this.#granted);
  }

  #goOn(): void {
    if (this.#granted.isFinal) return;
    const granted = Math.min(this.numDone + LEAD, this.#numSteps);
    this.#granted = { granted, isFinal: granted === this.#numSteps };
    this.#grant(this.#granted);
  }
}
