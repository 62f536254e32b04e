import { type Bytes, type DType, isWhole, ShardlabError } from '../../core';
import * as tf from '../../core/tf';
import type { BufferTable } from './buffer-table';
import type { HeapHealth } from './heap-health';
import type { Interrupts } from './interrupts';
import { type FailedRequest, FULL_HEAP, HEAP_END, outOfMemory } from './out-of-memory';
import type { WasmBackend } from './wasm-backend';

const ALIGNMENT = 64;
/** Buffers from this size on are aligned to cache lines; for smaller buffers, alignment does not make kernels faster. */
const ALIGNED_FROM: Bytes = 1024;

/** Largest number of bytes of all buffers together; undefined if only the heap's size limits the buffers. */
export interface MemoryLimit {
  bytes: Bytes | undefined;
}

/** A backend and the table of its buffers. */
interface Allocations {
  readonly backend: WasmBackend;
  readonly table: BufferTable;
}

/** Runs a kernel. If the kernel throws, frees the buffers that it made, because no other code can free them. */
export function freeingOnError<T>(allocations: Allocations, kernel: () => T): T {
  const { mark } = allocations.table;
  try {
    return kernel();
  } catch (error) {
    freeSince(allocations, mark);
    throw error;
  }
}

/** Frees the device's buffers that were made after `mark` was read. */
export function freeSince({ backend, table }: Allocations, mark: number): void {
  for (const key of table.keysSince(mark)) backend.disposeData(key, true);
}

/** Checks that a buffer fits below the memoryLimit. Throws: OUT_OF_MEMORY. */
export function requireRoom(
  table: BufferTable,
  { bytes: limit }: MemoryLimit,
  buffer: Pick<FailedRequest, 'bytes' | 'shape' | 'dtype'>,
): void {
  if (limit === undefined || table.bytes + buffer.bytes <= limit) return;
  throw outOfMemory(table, { ...buffer, boundary: 'memoryLimit', limit });
}

/**
 * Replaces the backend's allocation. Every buffer is added to `table` when it is allocated, and removed when it is freed.
 * Large buffers are aligned to cache lines. If an allocation fails, this code throws OUT_OF_MEMORY (tfjs would write to address
 * 0). On a damaged heap nothing is allocated, freed or read.
 */
export function observeAllocations(
  backend: WasmBackend,
  table: BufferTable,
  memoryLimit: MemoryLimit,
  health: HeapHealth,
  interrupts: Interrupts,
): void {
  const { wasm, dataIdMap } = backend;
  const starts = new WeakMap<object, number>();

  const allocate = (bytes: Bytes, shape: readonly number[], dtype: tf.DataType) => {
    requireRoom(table, memoryLimit, { bytes, shape, dtype });
    const slack = bytes >= ALIGNED_FROM ? ALIGNMENT - 8 : 0;
    const start = bytes + slack < HEAP_END ? wasm._malloc(bytes + slack) >>> 0 : 0;
    if (start === 0 && bytes > 0) {
      const heap = wasm.HEAPU8.length;
      const isHost = heap + bytes + slack < HEAP_END;
      const end = isHost ? ({ boundary: 'host', limit: heap } as const) : FULL_HEAP;
      throw outOfMemory(table, { bytes, shape, dtype, ...end });
    }
    return { start, offset: slack === 0 ? start : Math.ceil(start / ALIGNMENT) * ALIGNMENT };
  };

  backend.move = (dataId, values, shape, dtype, refCount) => {
    const id = backend.dataIdNextNumber++;
    if (dtype === 'string') {
      const strings = { id, stringBytes: values, shape, dtype, memoryOffset: null, refCount };
      dataIdMap.set(dataId, strings);
      return;
    }
    health.requireSound();
    interrupts.check();
    requireShape(shape);
    const size = tf.util.sizeFromShape(shape);
    const bytes = size * tf.util.bytesPerElement(dtype);
    interrupts.unbroken(() => {
      const { start, offset } = allocate(bytes, shape, dtype);
      starts.set(dataId, start);
      dataIdMap.set(dataId, { id, memoryOffset: offset, shape, dtype, refCount });
      wasm.tfjs.registerTensor(id, size, offset);
      // The engine makes tensors only of the types in DType.
      table.add(dataId, bytes, dtype as DType);
      if (values !== null) wasm.HEAPU8.set(new Uint8Array(values.buffer, values.byteOffset, bytes), offset);
    });
  };

  const makeOutput = backend.makeOutput.bind(backend);
  backend.makeOutput = (shape, dtype, memoryOffset, values) => {
    const output = makeOutput(shape, dtype, memoryOffset, values);
    // Some kernels allocate their output in C++, so `move` has not added the output to the table.
    if (memoryOffset !== undefined && memoryOffset !== null) {
      table.add(
        output.dataId,
        tf.util.sizeFromShape([...shape]) * tf.util.bytesPerElement(dtype),
        dtype as DType,
      );
    }
    return output;
  };

  backend.disposeData = (dataId, force = false) => {
    if (!dataIdMap.has(dataId)) return true;
    const data = dataIdMap.get(dataId);
    data.refCount--;
    if (!force && data.refCount > 0) return false;
    interrupts.unbroken(() => {
      if (data.memoryOffset !== null && health.damage === undefined) {
        wasm._free(starts.get(dataId) ?? data.memoryOffset);
        wasm.tfjs.disposeData(data.id);
      }
      dataIdMap.delete(dataId);
      table.remove(dataId);
    });
    return true;
  };

  const readSync = backend.readSync.bind(backend);
  backend.readSync = (dataId, start, end) => {
    health.requireSound();
    interrupts.check();
    return readSync(dataId, start, end);
  };
}

/**
 * Checks that lengths are integers of at least 0: a product of two negative lengths would look like a valid size. Throws:
 * SHAPE.
 */
export function requireShape(shape: readonly number[]): void {
  if (shape.every((length) => isWhole(length, 0))) return;
  throw new ShardlabError(
    'SHAPE',
    `no tensor has the shape [${shape}]: each length must be an integer of at least 0.`,
  );
}
