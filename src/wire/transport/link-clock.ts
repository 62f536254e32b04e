import { now, type Seconds } from '../../core';
import { type Link, transferSeconds, type WireCost } from './link';
import type { Wait } from './wait';

/** A rank's shaped link as plain data, so that it can be sent to the rank's comm thread. */
export interface SharedLink {
  readonly link: Link;
  readonly buffer: SharedArrayBuffer;
}

/** A sleep may end too late by about this time, so a thread spins for the last part of a wait. */
const SPIN_SECONDS: Seconds = 100e-6;
const BUSY_UNTIL = 0;
const EPOCH = 1;
const NANOS = 1e9;

/** Makes the shared state of one rank's link. */
export function shareLink(link: Link): SharedLink {
  return { link, buffer: new SharedArrayBuffer(16) };
}

/**
 * One rank's link, which its main thread and its comm thread share. [Note: link shaping] The bytes themselves travel at
 * full speed; the collective ends when a link of the given speed would have carried these bytes. The transfer begins when all
 * ranks have arrived and have free links. Each rank writes into its fingerprint the time at which it had arrived and its own
 * link was free; the transfer begins at the latest of these times. So all ranks compute the same times, however the ranks are
 * scheduled. A transfer keeps the link busy, and transfers of other collectives queue behind it, so two transfers never
 * overlap.
 */
export class LinkClock {
  readonly shared: SharedLink;
  /** Two words: the time until which the link is busy, in nanoseconds, and the epoch of the collectives that use the link. */
  readonly #words: BigInt64Array;

  constructor(shared: SharedLink) {
    this.shared = shared;
    this.#words = new BigInt64Array(shared.buffer);
  }

  /** Returns the time at which this rank could begin a transfer if it arrived now. */
  freeAt(epoch: number): Seconds {
    return Math.max(now(), this.#busyUntil(epoch));
  }

  /** Reserves the link for a transfer. `ready` is the time at which all ranks were ready for the transfer. */
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

  /** Frees the link in a new epoch, so that transfers that a reset interrupted do not keep the link busy. */
  #enterEpoch(epoch: number): void {
    const known = Atomics.load(this.#words, EPOCH);
    if (known === BigInt(epoch)) return;
    if (Atomics.compareExchange(this.#words, EPOCH, known, BigInt(epoch)) === known)
      Atomics.store(this.#words, BUSY_UNTIL, 0n);
  }
}

/** The wait for a transfer's end. The thread sleeps until shortly before the end, then it spins. */
export class Landing implements Wait {
  /** The time at which the transfer began. `lands` is the time at which it ends. */
  readonly started: Seconds;
  readonly lands: Seconds;

  constructor(started: Seconds, lands: Seconds) {
    this.started = started;
    this.lands = lands;
  }

  ready(): boolean {
    return now() >= this.lands;
  }

  /** The milliseconds that the thread may sleep; 0 or less if the thread must spin until the end. */
  get spareMilliseconds(): number {
    return (this.lands - SPIN_SECONDS - now()) * 1e3;
  }

  sleep(milliseconds: number): void {
    const spare = Math.min(milliseconds, this.spareMilliseconds);
    if (spare > 0) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, spare);
  }

  /** Never throws, because this wait depends on no other rank. */
  diagnose(): void {}
}
