import { type Bytes, type DType, itemBytes, ShardlabError, type Tag } from '../../core';
import type * as tf from '../../core/tf';
import type { Elementwise } from './elementwise';
import { HostHeap } from './host-heap';
import { type FusedKernels, loadFusedKernels } from './kernels/fused-kernels';
import { outOfMemory } from './out-of-memory';
import { offsetOf, type WasmContext } from './wasm-context';
import { WasmElementwise } from './wasm-elementwise';

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
