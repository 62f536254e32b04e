import * as tf from '../../src/core/tf';
import type { WasmBackend } from '../../src/engine/backend/wasm-backend';

const PAD_BYTES = 4096;

/** Puts known bytes before and behind every buffer that the current engine allocates from now on. */
export class GuardedHeap {
  readonly backend = tf.backend() as unknown as WasmBackend; // the engine's
  readonly #blocks = new Map<number, number>();
  #fill = 0x5a;

  constructor() {
    // The first call of each replaces itself in Emscripten's module.
    tf.scalar(0).dispose();
    const { wasm } = this.backend;
    const { _malloc: malloc, _free: free } = wasm;
    wasm._malloc = (bytes) => {
      const start = malloc.call(wasm, bytes + 2 * PAD_BYTES) >>> 0;
      wasm.HEAPU8.fill(this.#fill, start, start + bytes + 2 * PAD_BYTES);
      this.#blocks.set(start + PAD_BYTES, bytes);
      return start + PAD_BYTES;
    };
    wasm._free = (start) => {
      free.call(wasm, this.#blocks.delete(start) ? start - PAD_BYTES : start);
    };
  }

  /** Runs `work` with other bytes in all memory that is not written. */
  filledWith<T>(byte: number, work: () => T): T {
    this.#fill = byte;
    return work();
  }

  /** Bytes of these pads that were overwritten. */
  get damage(): number {
    const { HEAPU8 } = this.backend.wasm;
    let damage = 0;
    for (const [start, bytes] of this.#blocks) {
      for (let i = 0; i < PAD_BYTES; i++) {
        damage +=
          Number(HEAPU8[start - 1 - i] !== this.#fill) + Number(HEAPU8[start + bytes + i] !== this.#fill);
      }
    }
    return damage;
  }
}
