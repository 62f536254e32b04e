import { setTimeout as delay } from 'node:timers/promises';
import { ConfigError } from '../../core/errors';

/** An interrupt waits at most this long for the end of running work; then the work is aborted. */
const STOP_MS = 3000;

/** What a run can be busy with. */
export type Business = 'stepping' | 'resharding' | 'saving' | 'loading';

interface Turn {
  readonly business: Business;
  readonly ended: Promise<unknown>;
}

/**
 * Allows one piece of a run's work at a time. New work waits for work that is stopping, and is refused during other
 * work.
 */
export class RunTurns {
  #turn: Turn | undefined;
  #isStopping = false;

  /** Runs `work` alone. Throws: CONFIG while other work runs that was not stopped; errors of `work`. */
  async take<T>(business: Business, work: () => Promise<T>): Promise<T> {
    const before = this.#turn;
    if (before !== undefined && !this.#isStopping) {
      throw new ConfigError(
        `this run is already ${before.business}; await that call before the run is ${business === before.business ? `${business} again` : business}`,
      );
    }
    const running = this.#after(before?.ended, work);
    const turn = { business, ended: Promise.allSettled([running]) };
    this.#turn = turn;
    try {
      return await running;
    } finally {
      if (this.#turn === turn) this.#turn = undefined;
    }
  }

  /**
   * Waits for the end of running work. Says whether it ended in time, or whether nothing had to be awaited. A save can
   * be aborted at any moment, so `stop` does not wait for it; the next work waits until the checkpoint is in place or
   * was given up.
   */
  async stop(tell: () => void): Promise<'stopped' | 'late' | 'idle'> {
    const turn = this.#turn;
    if (turn === undefined) return 'idle';
    this.#isStopping = true;
    if (turn.business === 'saving') return 'idle';
    tell();
    const limit = new AbortController();
    const late = delay(STOP_MS, 'late' as const, { signal: limit.signal });
    const stopped = turn.ended.then(() => 'stopped' as const);
    return Promise.race([stopped, late]).finally(() => limit.abort());
  }

  /** Waits for stopped work that is still ending. */
  async #after<T>(ended: Promise<unknown> | undefined, work: () => Promise<T>): Promise<T> {
    await ended;
    this.#isStopping = false;
    return work();
  }
}
