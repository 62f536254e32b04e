import { now, type Seconds } from '../core/units';
import { type Link, transferSeconds, type WireCost } from './link';
import type { Wait } from './wait';

/** A rank's shaped link, as plain data, which can be sent to its comm thread. */
export interface SharedLink {
  readonly link: Link;
  readonly buffer: SharedArrayBuffer;
}

/** Sleeping is exact to about this time; the thread spins for the rest of a wait. */
const SPIN_SECONDS: Seconds = 100e-6;
const BUSY_UNTIL = 0;
const EPOCH = 1;
const NANOS = 1e9;

/** Memory for one rank's link. */
export function shareLink(link: Link): SharedLink {
  return { link, buffer: new SharedArrayBuffer(16) };
}

/**
 * One rank's wire, which its main thread and its comm thread share. [Note: link shaping] The bytes themselves travel at
 * full speed; then the collective ends when a link of the given speed would have carried them. The transfer begins when
 * all ranks have arrived with their links free. Each rank writes this time into its fingerprint, and the latest time
 * counts, so all ranks compute the same times, whenever they are scheduled. A transfer keeps the link busy, and
 * transfers of other collectives queue behind it, so nothing overlaps for free.
 */
export class LinkClock {
  readonly shared: SharedLink;
  /** Nanoseconds: until when the link is taken, and by which epoch's collectives. */
  readonly #words: BigInt64Array;

  constructor(shared: SharedLink) {
    this.shared = shared;
    this.#words = new BigInt64Array(shared.buffer);
  }

  /** When this rank could begin a transfer if it arrived now. */
  freeAt(epoch: number): Seconds {
    return Math.max(now(), this.#busyUntil(epoch));
  }

  /** Takes the link for a transfer for which all ranks were ready at `ready`. */
  carry(epoch: number, ready: Seconds, cost: WireCost): Landing {
    const seconds = transferSeconds(this.shared.link, cost);
    this.#enterEpoch(epoch);
    for (;;) {
      const busy = Atomics.load(this.#words, BUSY_UNTIL);
      const started = Math.max(ready, Number(busy) / NANOS);
      const lands = started + seconds;
      const next = BigInt(Math.round(lands * NANOS));
      if (Atomics.compareExchange(this.#words, BUSY_UNTIL, busy, next) === busy)
        return new Landing(started, lands);
    }
  }

  #busyUntil(epoch: number): Seconds {
    if (Atomics.load(this.#words, EPOCH) !== BigInt(epoch)) return 0;
    return Number(Atomics.load(this.#words, BUSY_UNTIL)) / NANOS;
  }

  /** Transfers that were cut off by a reset do not keep the link busy. */
  #enterEpoch(epoch: number): void {
    const known = Atomics.load(this.#words, EPOCH);
    if (known === BigInt(epoch)) return;
    if (Atomics.compareExchange(this.#words, EPOCH, known, BigInt(epoch)) === known)
      Atomics.store(this.#words, BUSY_UNTIL, 0n);
  }
}

/** The wait for a transfer's end: sleeps until shortly before it, then spins. */
export class Landing implements Wait {
  /** When the transfer began, and when it ends. */
  readonly started: Seconds;
  readonly lands: Seconds;

  constructor(started: Seconds, lands: Seconds) {
    this.started = started;
    this.lands = lands;
  }

  ready(): boolean {
    return now() >= this.lands;
  }

  /** How long the thread may sleep, in milliseconds; 0 or less if it must spin for the rest. */
  get spareMilliseconds(): number {
    return (this.lands - SPIN_SECONDS - now()) * 1e3;
  }

  sleep(milliseconds: number): void {
    const spare = Math.min(milliseconds, this.spareMilliseconds);
    if (spare > 0) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, spare);
  }

  /** This wait depends on no other rank. */
  diagnose(): void {}
}
