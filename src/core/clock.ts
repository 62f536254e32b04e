import { now, type Seconds } from './units';

/** The clock of events' times. */
export interface Clock {
  now(): Seconds;
}

/** The host's monotonic clock. */
export const HOST_CLOCK: Clock = { now };

/** Begin and end of an operation on a stream. */
export interface Stretch {
  readonly started: Seconds;
  readonly ended: Seconds;
}

/**
 * A clock whose time passes only by computations and waits. It has one stream of computation, and one of communication
 * per group, and begins at 0. An operation that is posted to a stream starts when it is posted or when the stream is
 * free, whichever is later. The stream of computation continues meanwhile, and stops only while it waits.
 */
export class SimulatedClock implements Clock {
  #now: Seconds = 0;
  /** When each stream of communication will be free. */
  readonly #free = new Map<string, Seconds>();

  now(): Seconds {
    return this.#now;
  }

  /** Computes for this time. */
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
