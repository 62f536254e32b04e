import { type BlockList, type CallHeader, VALUE_BYTES } from './call';
import type { Native } from './native';

/**
 * Elements at native addresses of this process, in wire order; address 0 means padding. Spans are plain data, so they can be
 * sent to other threads.
 */
export interface Spans {
  readonly addresses: readonly number[];
  readonly lengths: readonly number[];
  readonly total: number;
}

/** A collective whose data is at native addresses. It is plain data, so it can be sent to the comm thread. */
export interface SpanCall {
  readonly header: CallHeader;
  readonly inputs: readonly Spans[];
  readonly outputs: readonly Spans[];
}

export function toSpans(blocks: BlockList): Spans {
  const addresses: number[] = [];
  const lengths: number[] = [];
  let total = 0;
  for (const { storage, offset, length } of blocks) {
    addresses.push(storage === undefined ? 0 : storage.address + offset * VALUE_BYTES);
    lengths.push(length);
    total += length;
  }
  return { addresses, lengths, total };
}

/** Iterates over spans, and copies their elements to or from memory that all ranks share. */
export class Cursor {
  #index = 0;
  #within = 0;
  readonly #native: Native;
  readonly #spans: Spans;

  constructor(native: Native, spans: Spans) {
    this.#native = native;
    this.#spans = spans;
  }

  /** Copies the next `length` elements to `target`; padding becomes zeros. */
  readTo(target: number, length: number): void {
    this.#walk(length, (address, done, bytes) => {
      if (address === 0) this.#native.clear(target + done, bytes);
      else this.#native.copy(target + done, address, bytes);
    });
  }

  /** Copies the next `length` elements from `source`; drops elements for padding. */
  writeFrom(source: number, length: number): void {
    this.#walk(length, (address, done, bytes) => {
      if (address !== 0) this.#native.copy(address, source + done, bytes);
    });
  }

  #walk(length: number, visit: (address: number, done: number, bytes: number) => void): void {
    let done = 0;
    while (done < length) {
      const available = (this.#spans.lengths[this.#index] ?? 0) - this.#within;
      const take = Math.min(available, length - done);
      const start = this.#spans.addresses[this.#index];
      if (start === undefined) return;
      if (take > 0) {
        const address = start === 0 ? 0 : start + this.#within * VALUE_BYTES;
        visit(address, done * VALUE_BYTES, take * VALUE_BYTES);
      }
      done += take;
      this.#within += take;
      if (take === available) {
        this.#index++;
        this.#within = 0;
      }
    }
  }
}
