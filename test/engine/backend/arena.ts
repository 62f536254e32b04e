import assert from 'node:assert/strict';
import { type FusedKernels, loadFusedKernels } from '../../../src/engine/backend/kernels/fused-kernels';

const GUARD = 1234.5;

/** Arrays in the test's own memory, each between guards that show a write out of bounds. */
export class Arena {
  readonly kernels: FusedKernels;
  readonly #memory = new WebAssembly.Memory({ initial: 16 });
  readonly #floats: Float32Array;
  #top = 16;
  readonly #ranges: [number, number][] = [];

  constructor() {
    this.kernels = loadFusedKernels(this.#memory);
    this.#floats = new Float32Array(this.#memory.buffer).fill(GUARD);
  }

  /** Offset in bytes of a new array, `shift` elements away from 16-byte alignment. */
  put(values: ArrayLike<number>, shift = 1): number {
    const start = this.#top + shift;
    this.#floats.set(values, start);
    this.#ranges.push([start, start + values.length]);
    this.#top = (start + values.length + 24) & ~15;
    return start * 4;
  }

  take(offset: number, length: number): Float32Array {
    return this.#floats.slice(offset / 4, offset / 4 + length);
  }

  /** Integers in a new array. */
  putIntegers(values: readonly number[]): number {
    return this.put(new Float32Array(Int32Array.from(values).buffer));
  }

  assertGuards(): void {
    let next = 0;
    const ranges = [...this.#ranges, [this.#floats.length, this.#floats.length]];
    for (const [start = 0, end = 0] of ranges) {
      for (let i = next; i < start; i++) assert.equal(this.#floats[i], GUARD, `element ${i} was overwritten`);
      next = end;
    }
  }
}

/** The nearest value with bfloat16's 8 bits of precision, ties to even. */
export function bfloat16(value: number): number {
  if (Number.isNaN(value)) return Number.NaN;
  const bits = new Uint32Array(Float32Array.of(value).buffer);
  const own = bits[0] ?? 0;
  bits[0] = ((own + 0x7fff + ((own >>> 16) & 1)) & 0xffff0000) >>> 0;
  return new Float32Array(bits.buffer)[0] ?? 0;
}
