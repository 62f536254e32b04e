import { itemBytes, type WireDType } from '../../core';
import type { Reduction } from './call';
import type { GroupMemory } from './group-memory';
import { BLOCK_LENGTH, type Stream } from './layout';
import type { Cursor } from './spans';

/** Copies values between a rank's own memory and slots, and reduces slots; converts values if the wire has 16 bits. */
export class SlotCodec {
  readonly itemBytes: number;
  readonly #group: GroupMemory;
  readonly #wire: WireDType;
  readonly #maximum: number;
  readonly #divisor: number;
  readonly #tableAt: number;
  readonly #scratch: readonly [number, number];

  constructor(group: GroupMemory, stream: Stream, wire: WireDType, reduction: Reduction | undefined) {
    this.#group = group;
    this.#wire = wire;
    this.itemBytes = itemBytes(wire);
    this.#maximum = reduction === 'max' ? 1 : 0;
    this.#divisor = reduction === 'avg' ? group.size : 1;
    this.#tableAt = group.layout.table(stream);
    this.#scratch = [group.layout.scratch(stream, 0), group.layout.scratch(stream, 1)];
  }

  /** Copies the cursor's next `length` elements into a slot. */
  fill(slot: number, cursor: Cursor, length: number): void {
    const { base, kernels } = this.#group;
    const narrow = kernels.narrow[this.#wire];
    if (narrow === undefined) {
      cursor.readTo(base + slot, length);
      return;
    }
    const [wide] = this.#scratch;
    inBlocks(length, (done, count) => {
      cursor.readTo(base + wide, count);
      narrow(slot + done * this.itemBytes, wide, count);
    });
  }

  /** Copies the values of a slot to the cursor's next `length` elements. */
  drain(slot: number, cursor: Cursor, length: number): void {
    const { base, kernels } = this.#group;
    const widen = kernels.widen[this.#wire];
    if (widen === undefined) {
      cursor.writeFrom(base + slot, length);
      return;
    }
    const [wide] = this.#scratch;
    inBlocks(length, (done, count) => {
      widen(wide, slot + done * this.itemBytes, count);
      cursor.writeFrom(base + wide, count);
    });
  }

  /** Reduces slots in the order of the list; writes the result to `target`, a position in the group's memory. */
  reduce(target: number, slots: readonly number[], length: number): void {
    const { kernels, words } = this.#group;
    slots.forEach((slot, index) => {
      words[(this.#tableAt >> 2) + index] = slot;
    });
    kernels.reduce[this.#wire](this.#maximum, target, this.#tableAt, slots.length, length, this.#divisor);
  }

  /** Reduces slots into the cursor's next elements, block by block, so that the scratch buffer stays in the cache. */
  reduceTo(cursor: Cursor, slots: readonly number[], length: number): void {
    const { base, kernels } = this.#group;
    const widen = kernels.widen[this.#wire];
    const [wide, narrow] = this.#scratch;
    inBlocks(length, (done, count) => {
      const sources = slots.map((slot) => slot + done * this.itemBytes);
      this.reduce(widen === undefined ? wide : narrow, sources, count);
      widen?.(wide, narrow, count);
      cursor.writeFrom(base + wide, count);
    });
  }
}

function inBlocks(length: number, visit: (done: number, count: number) => void): void {
  for (let done = 0; done < length; done += BLOCK_LENGTH) {
    visit(done, Math.min(BLOCK_LENGTH, length - done));
  }
}
