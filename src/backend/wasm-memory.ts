import type { DType } from '../core/dtypes';
import { ShardlabError } from '../core/errors';
import * as tf from '../core/tf';
import type { Bytes } from '../core/units';
import type { BufferTable } from './buffer-table';
import type { HeapHealth } from './heap-health';
import { type FailedRequest, FULL_HEAP, HEAP_END, outOfMemory } from './out-of-memory';
import type { WasmBackend } from './wasm-backend';

const ALIGNMENT = 64;
/** Smaller buffers stay where malloc puts them: their alignment does not show in any timing. */
const ALIGNED_FROM: Bytes = 1024;

/** Most bytes that buffers may take together; undefined: as many as the heap has. */
export interface MemoryLimit {
  bytes: Bytes | undefined;
}

/** A backend and the table of its buffers. */
interface Allocations {
  readonly backend: WasmBackend;
  readonly table: BufferTable;
}

/** Runs a kernel; when it throws, the buffers that it made are freed, for nobody else knows of them. */
export function freeingOnError<T>(allocations: Allocations, kernel: () => T): T {
  const { mark } = allocations.table;
  try {
    return kernel();
  } catch (error) {
    freeSince(allocations, mark);
    throw error;
  }
}

/** Frees the device's buffers that were made after a mark. */
export function freeSince({ backend, table }: Allocations, mark: number): void {
  for (const key of table.keysSince(mark)) backend.disposeData(key, true);
}

/** Throws: OUT_OF_MEMORY if the limit leaves no room for a buffer. */
export function requireRoom(
  table: BufferTable,
  { bytes: limit }: MemoryLimit,
  buffer: Pick<FailedRequest, 'bytes' | 'shape' | 'dtype'>,
): void {
  if (limit === undefined || table.bytes + buffer.bytes <= limit) return;
  throw outOfMemory(table, { ...buffer, boundary: 'memoryLimit', limit });
}

/**
 * Puts the engine's own allocation into the backend: every buffer is entered in `table` when it is made and taken
 * out when it is freed, large ones are aligned to cache lines, and a buffer that cannot be had is an
 * OUT_OF_MEMORY error instead of a write to address 0. Nothing is made, freed or read on a damaged heap.
 */
export function observeAllocations(
  backend: WasmBackend,
  table: BufferTable,
  memoryLimit: MemoryLimit,
  health: HeapHealth,
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
    requireShape(shape);
    const size = tf.util.sizeFromShape(shape);
    const bytes = size * tf.util.bytesPerElement(dtype);
    const { start, offset } = allocate(bytes, shape, dtype);
    starts.set(dataId, start);
    dataIdMap.set(dataId, { id, memoryOffset: offset, shape, dtype, refCount });
    wasm.tfjs.registerTensor(id, size, offset);
    // The wasm backend holds no other types of values.
    table.add(dataId, bytes, dtype as DType);
    if (values !== null) wasm.HEAPU8.set(new Uint8Array(values.buffer, values.byteOffset, bytes), offset);
  };

  const makeOutput = backend.makeOutput.bind(backend);
  backend.makeOutput = (shape, dtype, memoryOffset, values) => {
    const output = makeOutput(shape, dtype, memoryOffset, values);
    // Some kernels allocate their output themselves, in C++.
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
    if (data.memoryOffset !== null && health.damage === undefined) {
      wasm._free(starts.get(dataId) ?? data.memoryOffset);
      wasm.tfjs.disposeData(data.id);
    }
    dataIdMap.delete(dataId);
    table.remove(dataId);
    return true;
  };

  const readSync = backend.readSync.bind(backend);
  backend.readSync = (dataId, start, end) => {
    health.requireSound();
    return readSync(dataId, start, end);
  };
}

/** Throws: SHAPE for lengths that no tensor has, which two negative ones would hide in their product. */
export function requireShape(shape: readonly number[]): void {
  if (shape.every((length) => Number.isInteger(length) && length >= 0)) return;
  throw new ShardlabError(
    'SHAPE',
    `no tensor has the shape [${shape}]: each length must be a whole number from 0 on.`,
  );
}
