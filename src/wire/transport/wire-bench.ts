import { itemBytes, type WireDType } from '../../core';
import type { Reduction } from './call';
import { instantiateKernels, type ReductionKernels } from './kernels/load';
import { roundUp } from './layout';
import { PAGE_BYTES, sharedBuffer } from './segment';

const SLACK = 128;

/** Converts and reduces messages in a WebAssembly memory of its own, which grows to the size of the largest message. */
export class WireBench {
  readonly #module: WebAssembly.Module;
  #bytes: Uint8Array = new Uint8Array(0);
  #kernels: ReductionKernels | undefined;

  constructor(module: WebAssembly.Module) {
    this.#module = module;
  }

  /** Converts float32 or int32 values to a new message. */
  toWire(values: Uint8Array, wire: WireDType): Buffer {
    return itemBytes(wire) === 4
      ? Buffer.from(values)
      : Buffer.from(this.#convert('narrow', values, wire, 2));
  }

  /** Like `toWire`, but for data that does not leave this rank: if the wire does not round, the result is `values` itself. */
  toOwn(values: Uint8Array, wire: WireDType): Uint8Array {
    return itemBytes(wire) === 4 ? values : this.toWire(values, wire);
  }

  /** Converts a message to float32 or int32 values, and writes them into `values`. */
  fromWire(message: Uint8Array, wire: WireDType, values: Uint8Array): void {
    values.set(itemBytes(wire) === 4 ? message : this.#convert('widen', message, wire, 4));
  }

  /** Reduces messages of equal length, in the order of the list, into a new message. */
  reduce(messages: readonly Uint8Array[], wire: WireDType, reduction: Reduction | undefined): Buffer {
    const bytes = messages[0]?.byteLength ?? 0;
    const stride = roundUp(bytes + SLACK, SLACK);
    const table = 0;
    const first = roundUp(messages.length * 4, SLACK);
    const target = first + messages.length * stride;
    const kernels = this.#prepare(target + stride);
    const words = new Uint32Array(this.#bytes.buffer, table, messages.length);
    messages.forEach((message, index) => {
      words[index] = first + index * stride;
      this.#bytes.set(message, first + index * stride);
    });
    const op = reduction === 'max' ? 1 : 0;
    const divisor = reduction === 'avg' ? messages.length : 1;
    kernels.reduce[wire](op, target, table, messages.length, bytes / itemBytes(wire), divisor);
    return Buffer.from(this.#bytes.subarray(target, target + bytes));
  }

  /** Returns converted values, which are valid until the next call. */
  #convert(how: 'narrow' | 'widen', from: Uint8Array, wire: WireDType, toBytes: 2 | 4): Uint8Array {
    const length = from.byteLength / (6 - toBytes);
    const target = roundUp(from.byteLength + SLACK, SLACK);
    const kernels = this.#prepare(target + length * toBytes + SLACK);
    this.#bytes.set(from, 0);
    kernels[how][wire]?.(target, 0, length);
    return this.#bytes.subarray(target, target + length * toBytes);
  }

  #prepare(bytes: number): ReductionKernels {
    if (this.#kernels !== undefined && bytes <= this.#bytes.byteLength) return this.#kernels;
    const pages = Math.ceil((bytes * 1.5) / PAGE_BYTES);
    const memory = new WebAssembly.Memory({ initial: pages, maximum: pages, shared: true });
    this.#bytes = new Uint8Array(sharedBuffer(memory));
    this.#kernels = instantiateKernels(this.#module, memory);
    return this.#kernels;
  }
}
