import type { DebugNews } from '../../src/cell';
import { type Job, registeredJobs } from '../../src/session';
import type { FromExecutor, RankOrder } from './protocol';

/** Passes orders of the debugger to the ranks of jobs, and what these ranks report to the front. */
export class RankDebug {
  readonly #send: (message: FromExecutor) => void;
  readonly #numbers = new WeakMap<Job, number>();
  #numJobs = 0;

  constructor(send: (message: FromExecutor) => void) {
    this.#send = send;
  }

  /** Reports what the debug agents of this job's ranks report. */
  listen(job: Job): void {
    if (this.#numbers.has(job)) return;
    const number = ++this.#numJobs;
    this.#numbers.set(job, number);
    job.debugged = (rank: number, news: DebugNews) =>
      this.#send({ type: 'debug', place: { job: number, rank }, news });
  }

  /** Gives an order to one rank, or to all ranks that the debugger has met. */
  pass({ place, order }: RankOrder): void {
    for (const job of registeredJobs()) {
      const number = this.#numbers.get(job);
      if (number === undefined || (place !== 'all' && place.job !== number)) continue;
      job.debug(place === 'all' ? 'all' : place.rank, order);
    }
  }
}
