import type { Bytes } from '../core/units';

/** The most bytes that the pool stores for later calls. */
const MOST_KEPT: Bytes = 64 * 2 ** 20;

/**
 * Memory in which the main thread passes data to its comm thread. Training repeats calls with the same sizes, and fresh
 * memory costs a page fault per 4 kB: a third of the time of a large collective over zeromq.
 */
export class StagingPool {
  readonly #free = new Map<Bytes, SharedArrayBuffer[]>();
  #kept: Bytes = 0;

  /** Memory of exactly `bytes` bytes, with its old content. */
  take(bytes: Bytes): SharedArrayBuffer {
    const found = this.#free.get(bytes)?.pop();
    if (found === undefined) return new SharedArrayBuffer(bytes);
    this.#kept -= bytes;
    return found;
  }

  /** Returns memory that is no longer in use. */
  give(buffer: SharedArrayBuffer): void {
    const { byteLength } = buffer;
    if (this.#kept + byteLength > MOST_KEPT) return;
    this.#kept += byteLength;
    const same = this.#free.get(byteLength);
    if (same === undefined) this.#free.set(byteLength, [buffer]);
    else same.push(buffer);
  }
}
