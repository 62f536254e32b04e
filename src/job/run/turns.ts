import { ConfigError } from '../../core/errors';

/** An interrupt waits at most so long for the end of what runs; then it is broken off. */
const STOP_MS = 3000;

/** What a run can be busy with. */
export type Business = 'stepping' | 'resharding' | 'saving' | 'loading';

interface Turn {
  readonly business: Business;
  readonly ended: Promise<void>;
}

/** One piece of a run's work at a time. What was told to stop is waited for, all else is refused. */
export class RunTurns {
  #turn: Turn | undefined;
  #isStopping = false;

  /** Runs `work` alone. Throws: CONFIG while something else runs that nobody stopped; what `work` throws. */
  async take<T>(business: Business, work: () => Promise<T>): Promise<T> {
    const before = this.#turn;
    if (before !== undefined && !this.#isStopping) {
      throw new ConfigError(
        `this run is ${before.business} already; await that before it is ${business === before.business ? `${business} again` : business}`,
      );
    }
    const running = this.#after(before?.ended, work);
    const turn: Turn = {
      business,
      ended: running.then(
        () => undefined,
        () => undefined,
      ),
    };
    this.#turn = turn;
    try {
      return await running;
    } finally {
      if (this.#turn === turn) this.#turn = undefined;
    }
  }

  /**
   * Waits for the end of what runs: whether it came in time, or there is nothing to wait for. A save can be broken off at
   * any moment, so it is not waited for here; what comes next waits until the checkpoint is in place, or was given up.
   */
  async stop(tell: () => void): Promise<'stopped' | 'late' | 'idle'> {
    const turn = this.#turn;
    if (turn === undefined) return 'idle';
    this.#isStopping = true;
    if (turn.business === 'saving') return 'idle';
    tell();
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<'late'>((resolve) => {
      timer = setTimeout(() => resolve('late'), STOP_MS);
    });
    const stopped = turn.ended.then(() => 'stopped' as const);
    return Promise.race([stopped, late]).finally(() => clearTimeout(timer));
  }

  /** What was stopped may still be ending. */
  async #after<T>(ended: Promise<void> | undefined, work: () => Promise<T>): Promise<T> {
    await ended;
    this.#isStopping = false;
    return work();
  }
}
