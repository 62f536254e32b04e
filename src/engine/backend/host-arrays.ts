import { type Bytes, type DType, itemBytes, ShardlabError, type Tag } from '../../core';
import type * as tf from '../../core/tf';
import type { Elementwise } from './elementwise';
import { type FusedKernels, loadFusedKernels } from './kernels/fused-kernels';
import { HEAP_END, outOfMemory } from './out-of-memory';
import { offsetOf, type WasmContext } from './wasm-context';
import { WasmElementwise } from './wasm-elementwise';

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

/**
 * A flat array on the host, which is a second heap in the same process. The code that allocates an array disposes it.
 */
export interface HostArray {
  readonly length: number;
  readonly dtype: DType;
  readonly bytes: Bytes;
  /**
   * Returns the elements, without a copy. The next allocation on the host makes the result invalid; then call `view` again.
   * Throws: SHAPE if the array is not float32, CLOSED after dispose.
   */
  view(): Float32Array;
  /** Returns the bytes of an array of any type, without a copy. The next allocation on the host makes the result invalid. */
  bytesView(): Uint8Array;
  dispose(): void;
}

/**
 * Arrays on the host. They are updated on the host, by the same code as tensors, so the results are bitwise equal. Observers
 * get the arrays' bytes with `space: 'host'`, and the device's memoryLimit does not count them. [Note: device and host] A CPU
 * rank has one memory: the device is the engine's heap, the host is a second heap, and a transfer between them is a copy.
 */
export interface HostMemory extends Elementwise<HostArray> {
  /** Bytes of all live arrays. */
  readonly bytes: Bytes;
  readonly numArrays: number;
  /** Returns an array whose values are not set. Throws: OUT_OF_MEMORY, with the held bytes on the host. */
  allocate(length: number, tag: Tag, dtype?: DType): HostArray;
  /** Copies from the device: array[at, at + length) = tensor[offset, offset + length). */
  fromDevice(tensor: tf.Tensor, offset: number, length: number, array: HostArray, at: number): void;
  /** Copies to the device: tensor[offset, offset + length) = array[at, at + length). */
  toDevice(array: HostArray, at: number, length: number, tensor: tf.Tensor, offset: number): void;
}

/** The host of a wasm engine. The first array creates the host's heap. */
export class WasmHostMemory extends WasmElementwise<HostArray> implements HostMemory {
  readonly #context: WasmContext;
  readonly #changed: (tensor: tf.Tensor) => void;
  readonly #arrays: () => HostHeap;

  /** `changed` is called after a copy from the host has changed a tensor. */
  constructor(context: WasmContext, changed: (tensor: tf.Tensor) => void) {
    let opened: { readonly heap: HostHeap; readonly kernels: FusedKernels } | undefined;
    const open = () => {
      opened ??= openHeap();
      return opened;
    };
    super({
      get kernels() {
        return open().kernels;
      },
      get heap() {
        return new Uint8Array(open().heap.memory.buffer);
      },
      offsetOf: (array) => array.bytesView().byteOffset,
      changed() {}, // no kernel caches copies of host arrays
      reserve: (bytes) => open().heap.allocate(bytes) ?? refuseTables(bytes),
    });
    this.#context = context;
    this.#changed = changed;
    this.#arrays = () => open().heap;
  }

  get bytes(): Bytes {
    return this.#context.table.bytesIn('host');
  }

  get numArrays(): number {
    return this.#context.table.sizeIn('host');
  }

  allocate(length: number, tag: Tag, dtype: DType = 'float32'): HostArray {
    const { table } = this.#context;
    const bytes = length * itemBytes(dtype);
    const heap = this.#arrays();
    const start = heap.allocate(bytes);
    if (start === undefined) {
      const request = { bytes, shape: [length], dtype, tag };
      throw outOfMemory(table, { ...request, boundary: 'hostHeap', limit: heap.bytes });
    }
    const array = hostArray(heap, start, length, dtype, () => table.remove(array));
    table.tagged(tag, () => table.add(array, bytes, dtype, 'host'));
    return array;
  }

  fromDevice(tensor: tf.Tensor, offset: number, length: number, array: HostArray, at: number): void {
    const { from, to } = this.#ranges('fromDevice', tensor, offset, length, array, at);
    to.set(from);
  }

  toDevice(array: HostArray, at: number, length: number, tensor: tf.Tensor, offset: number): void {
    const { from, to } = this.#ranges('toDevice', tensor, offset, length, array, at);
    from.set(to);
    this.#changed(tensor);
  }

  /**
   * Returns the bytes of a range of the tensor and of a range of the array. Throws: SHAPE if the types differ, or if a
   * range ends outside of the tensor or array.
   */
  #ranges(caller: string, tensor: tf.Tensor, offset: number, length: number, array: HostArray, at: number) {
    const { dtype, size } = tensor;
    const fits =
      offset >= 0 && length >= 0 && at >= 0 && offset + length <= size && at + length <= array.length;
    if (dtype !== array.dtype || !fits) {
      throw new ShardlabError(
        'SHAPE',
        `${caller}: elements [${offset}, ${offset + length}) of a tensor ${dtype} [${tensor.shape}] and elements ` +
          `[${at}, ${at + length}) of a host array ${array.dtype} [${array.length}] do not match; the types must be equal, and both ranges must exist.`,
      );
    }
    const item = itemBytes(dtype);
    const first = offsetOf(this.#context, tensor) + item * offset;
    return {
      from: this.#context.backend.wasm.HEAPU8.subarray(first, first + item * length),
      to: array.bytesView().subarray(item * at, item * (at + length)),
    };
  }
}

/** Creates the heap of host arrays and its kernels. */
function openHeap(): { readonly heap: HostHeap; readonly kernels: FusedKernels } {
  let heap: HostHeap;
  try {
    heap = new HostHeap();
  } catch (cause) {
    throw new ShardlabError(
      'OUT_OF_MEMORY',
      'There is no room for arrays on the host: this process may not reserve addresses for a second heap (10 GB of addresses, not of memory); raise the limit of virtual memory (ulimit -v unlimited), or omit offload.',
      { cause },
    );
  }
  return { heap, kernels: loadFusedKernels(heap.memory) };
}

function refuseTables(bytes: Bytes): never {
  throw new ShardlabError('OUT_OF_MEMORY', `${bytes} bytes for tables do not fit on the host's full heap.`);
}

function hostArray(
  heap: HostHeap,
  start: number,
  length: number,
  dtype: DType,
  disposed: () => void,
): HostArray {
  const bytes = length * itemBytes(dtype);
  let isLive = true;
  const bytesView = (): Uint8Array => {
    if (isLive) return new Uint8Array(heap.memory.buffer, start, bytes);
    throw new ShardlabError('CLOSED', `A host array of ${dtype} [${length}] was used after its dispose().`);
  };
  return {
    length,
    dtype,
    bytes,
    bytesView,
    view() {
      if (dtype !== 'float32')
        throw new ShardlabError('SHAPE', `A host array of ${dtype} has no float32 view; use bytesView().`);
      return new Float32Array(bytesView().buffer, start, length);
    },
    dispose() {
      if (!isLive) return;
      isLive = false;
      heap.free(start);
      disposed();
    },
  };
}
