import { type DType, itemBytes } from '../core/dtypes';
import { ShardlabError } from '../core/errors';
import type { Tag } from '../core/events';
import type * as tf from '../core/tf';
import type { Bytes } from '../core/units';
import type { Elementwise } from './elementwise';
import { HostHeap } from './host-heap';
import { type FusedKernels, loadFusedKernels } from './kernels/fused-kernels';
import { outOfMemory } from './out-of-memory';
import { offsetOf, type WasmContext } from './wasm-context';
import { WasmElementwise } from './wasm-elementwise';

/**
 * A flat array on the host: outside of the engine's heap, in the same process. The code that allocates it disposes it.
 */
export interface HostArray {
  readonly length: number;
  readonly dtype: DType;
  readonly bytes: Bytes;
  /**
   * The elements, without a copy. Invalid after the next allocation on the host; then call it again. Throws: SHAPE when
   * it is not float32, CLOSED after dispose.
   */
  view(): Float32Array;
  /** The bytes of an array of any type, under the same rules. */
  bytesView(): Uint8Array;
  dispose(): void;
}

/**
 * Arrays on the host, updated there with the device's own kernels, bit for bit. Their bytes count as `space: 'host'`
 * for observers, and not for the device's memoryLimit. [Note: device and host] CPU ranks have one memory: the device is
 * the engine's heap, the host is a separate heap, and a transfer between them is a copy.
 */
export interface HostMemory extends Elementwise<HostArray> {
  /** Bytes of all live arrays. */
  readonly bytes: Bytes;
  readonly numArrays: number;
  /** An array whose values are not set. Throws: OUT_OF_MEMORY with the held bytes on the host. */
  allocate(length: number, tag: Tag, dtype?: DType): HostArray;
  /** array[at, at + length) = tensor[offset, offset + length). */
  fromDevice(tensor: tf.Tensor, offset: number, length: number, array: HostArray, at: number): void;
  /** tensor[offset, offset + length) = array[at, at + length). */
  toDevice(array: HostArray, at: number, length: number, tensor: tf.Tensor, offset: number): void;
}

/** The host's side of a wasm engine. The first array creates its heap. */
export class WasmHostMemory extends WasmElementwise<HostArray> implements HostMemory {
  readonly #context: WasmContext;
  readonly #changed: (tensor: tf.Tensor) => void;
  readonly #arrays: () => HostHeap;

  /** `changed` is called for every tensor that was written to. */
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
      changed() {}, // no code caches copies
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

  /** The bytes of both sides of a copy. Throws: SHAPE when types differ or a range ends outside. */
  #ranges(what: string, tensor: tf.Tensor, offset: number, length: number, array: HostArray, at: number) {
    const { dtype, size } = tensor;
    const fits =
      offset >= 0 && length >= 0 && at >= 0 && offset + length <= size && at + length <= array.length;
    if (dtype !== array.dtype || !fits) {
      throw new ShardlabError(
        'SHAPE',
        `${what}: ${length} elements from ${offset} on of ${dtype} [${tensor.shape}] and from ${at} on of a host array ` +
          `${array.dtype} [${array.length}] do not match; give equal types and ranges that lie in both.`,
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

/** The heap of host arrays and its kernels; the first use makes them. */
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
    ...{ length, dtype, bytes, bytesView },
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
