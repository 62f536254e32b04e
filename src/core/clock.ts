import { now } from './now';
import type { Seconds } from './units';

/** The clock that gives events their times. */
export interface Clock {
  now(): Seconds;
}

/** The machine's monotonic clock. */
export const HOST_CLOCK: Clock = { now };

/** The times at which an operation on a stream starts and ends. */
export interface Stretch {
  readonly started: Seconds;
  readonly ended: Seconds;
}

/**
 * A clock that starts at 0 and advances only when code computes or waits. There is one stream of computation, and one stream
 * of communication per group. An operation that is posted to a stream starts when it is posted or when the stream is free,
 * whichever is later. The stream of computation continues at once; it stops only while it waits.
 */
export class SimulatedClock implements Clock {
  #now: Seconds = 0;
  /** The time at which each stream of communication will be free. */
  readonly #free = new Map<string, Seconds>();

  now(): Seconds {
    return this.#now;
  }

  /** Advances the clock by a computation of `seconds`. */
  compute(seconds: Seconds): void {
    this.#now += seconds;
  }

  /** Posts an operation that takes `seconds` to a stream. */
  post(stream: string, seconds: Seconds): Stretch {
    const started = Math.max(this.#now, this.#free.get(stream) ?? 0);
    const ended = started + seconds;
    this.#free.set(stream, ended);
    return { started, ended };
  }

  /** Waits until this time; a time in the past has no effect. */
  waitUntil(time: Seconds): void {
    this.#now = Math.max(this.#now, time);
  }
}
