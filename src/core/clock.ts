import { now, type Seconds } from './units';

/** Tells the time to which events are stated. */
export interface Clock {
  now(): Seconds;
}

/** The host's monotonic clock. */
export const HOST_CLOCK: Clock = { now };

/** When something on a stream begins and ends. */
export interface Stretch {
  readonly started: Seconds;
  readonly ended: Seconds;
}

/**
 * Time that passes only by what is computed and waited for: a stream of computation, and one of communication for each
 * group. It begins at 0. What is posted to a stream starts when it was posted and the stream is free, whichever is later;
 * the stream of computation goes on meanwhile and stands still when it waits.
 */
export class SimulatedClock implements Clock {
  #now: Seconds = 0;
  /** When each stream of communication will be free. */
  readonly #free = new Map<string, Seconds>();

  now(): Seconds {
    return this.#now;
  }

  /** Computes for so long. */
  compute(seconds: Seconds): void {
    this.#now += seconds;
  }

  /** Puts something that takes `seconds` on a stream. */
  post(stream: string, seconds: Seconds): Stretch {
    const started = Math.max(this.#now, this.#free.get(stream) ?? 0);
    const ended = started + seconds;
    this.#free.set(stream, ended);
    return { started, ended };
  }

  /** Stands still until then; a time that is past changes nothing. */
  waitUntil(time: Seconds): void {
    this.#now = Math.max(this.#now, time);
  }
}
