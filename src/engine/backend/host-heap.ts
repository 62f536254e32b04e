import type { Bytes } from '../../core';
import { HEAP_END } from './out-of-memory';

const ALIGNMENT = 16;
const PAGE_BYTES = 65536;

interface Block {
  start: number;
  bytes: Bytes;
}

/**
 * A WebAssembly.Memory with an allocator. Blocks are aligned to 16 bytes. An allocation uses the first free block that is
 * large enough; if there is none, the memory grows. Neighbouring free blocks are joined. Pages that were never written use
 * no memory of the process.
 */
export class HostHeap {
  readonly memory: WebAssembly.Memory;
  /** Free blocks, sorted by address; no two of them are neighbours. */
  readonly #free: Block[] = [];
  readonly #used = new Map<number, Bytes>();
  /** The current end of the memory. */
  #end: Bytes = PAGE_BYTES;

  /** Throws: RangeError if the process may not reserve the addresses. */
  constructor() {
    this.memory = new WebAssembly.Memory({ initial: 1, maximum: HEAP_END / PAGE_BYTES });
    // Address 0 is not used: no array begins there.
    this.#free.push({ start: ALIGNMENT, bytes: PAGE_BYTES - ALIGNMENT });
  }

  get bytes(): Bytes {
    return this.#end;
  }

  /** Returns the offset of a new block; undefined if the memory cannot grow enough. */
  allocate(bytes: Bytes): number | undefined {
    const needed = Math.max(ALIGNMENT, roundUp(bytes, ALIGNMENT));
    const index = this.#free.findIndex((block) => block.bytes >= needed);
    if (index < 0) return this.#grow(needed) ? this.allocate(bytes) : undefined;
    // findIndex has returned the index, so there is a block.
    const block = this.#free[index] as Block;
    const { start } = block;
    if (block.bytes === needed) this.#free.splice(index, 1);
    else this.#free[index] = { start: start + needed, bytes: block.bytes - needed };
    this.#used.set(start, needed);
    return start;
  }

  free(start: number): void {
    const bytes = this.#used.get(start);
    if (bytes === undefined) return;
    this.#used.delete(start);
    this.#release(start, bytes);
  }

  #grow(needed: Bytes): boolean {
    const last = this.#free.at(-1);
    const there = last !== undefined && last.start + last.bytes === this.#end ? last.bytes : 0;
    const growth = roundUp(needed - there, PAGE_BYTES);
    if (this.#end + growth > HEAP_END) return false;
    try {
      this.memory.grow(growth / PAGE_BYTES);
    } catch {
      return false;
    }
    this.#release(this.#end, growth);
    this.#end += growth;
    return true;
  }

  /** Adds a free block and joins it with its neighbours. */
  #release(start: number, bytes: Bytes): void {
    const nextIndex = this.#free.findIndex((block) => block.start > start);
    const index = nextIndex < 0 ? this.#free.length : nextIndex;
    const before = this.#free[index - 1];
    const after = this.#free[index];
    const joinsAfter = after !== undefined && start + bytes === after.start;
    const length = bytes + (joinsAfter ? after.bytes : 0);
    if (joinsAfter) this.#free.splice(index, 1);
    if (before !== undefined && before.start + before.bytes === start) before.bytes += length;
    else this.#free.splice(index, 0, { start, bytes: length });
  }
}

function roundUp(value: number, unit: number): number {
  return Math.ceil(value / unit) * unit;
}
