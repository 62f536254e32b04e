import { itemBytes, type WireDType } from '../core/dtypes';
import type { Reduction } from './call';
import type { GroupMemory } from './group-memory';
import { BLOCK_LENGTH, type Stream } from './layout';
import type { Cursor } from './spans';

/** Moves values between a rank's own memory and slots, and reduces slots; converts if the wire has 16 bits. */
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

  /** The cursor's next elements → slot. */
  fill(slot: number, cursor: Cursor, length: number): void {
    const { base } = this.#group;
    if (this.itemBytes === 4) {
      cursor.readTo(base + slot, length);
      return;
    }
    const [wide] = this.#scratch;
    inBlocks(length, (done, count) => {
      cursor.readTo(base + wide, count);
      this.#narrow(slot + done * this.itemBytes, wide, count);
    });
  }

  /** Slot → the cursor's next elements. */
  drain(slot: number, cursor: Cursor, length: number): void {
    const { base } = this.#group;
    if (this.itemBytes === 4) {
      cursor.writeFrom(base + slot, length);
      return;
    }
    const [wide] = this.#scratch;
    inBlocks(length, (done, count) => {
      this.#widen(wide, slot + done * this.itemBytes, count);
      cursor.writeFrom(base + wide, count);
    });
  }

  /** Reduces slots, in order, into another position of the group's memory. */
  reduce(target: number, slots: readonly number[], length: number): void {
    const { kernels, words } = this.#group;
    const [tableAt, maximum, divisor] = [this.#tableAt, this.#maximum, this.#divisor];
    slots.forEach((slot, index) => {
      words[(tableAt >> 2) + index] = slot;
    });
    const args = [maximum, target, tableAt, slots.length, length, divisor] as const;
    if (this.#wire === 'float32') kernels.reduceF32(...args);
    else if (this.#wire === 'int32') kernels.reduceI32(...args);
    else if (this.#wire === 'bfloat16') kernels.reduceBf16(...args);
    else kernels.reduceF16(...args);
  }

  /** Reduces slots into the cursor's next elements, block by block through a scratch buffer that stays in the cache. */
  reduceTo(cursor: Cursor, slots: readonly number[], length: number): void {
    const { base } = this.#group;
    const [wide, reduced] = this.#scratch;
    inBlocks(length, (done, count) => {
      const sources = slots.map((slot) => slot + done * this.itemBytes);
      if (this.itemBytes === 4) {
        this.reduce(wide, sources, count);
      } else {
        this.reduce(reduced, sources, count);
        this.#widen(wide, reduced, count);
      }
      cursor.writeFrom(base + wide, count);
    });
  }

  #narrow(target: number, source: number, length: number): void {
    const { kernels } = this.#group;
    if (this.#wire === 'bfloat16') kernels.toBf16(target, source, length);
    else kernels.toF16(target, source, length);
  }

  #widen(target: number, source: number, length: number): void {
    const { kernels } = this.#group;
    if (this.#wire === 'bfloat16') kernels.fromBf16(target, source, length);
    else kernels.fromF16(target, source, length);
  }
}

function inBlocks(length: number, visit: (done: number, count: number) => void): void {
  for (let done = 0; done < length; done += BLOCK_LENGTH) {
    visit(done, Math.min(BLOCK_LENGTH, length - done));
  }
}
