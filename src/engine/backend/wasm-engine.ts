import {
  type Bytes,
  type Clock,
  type DType,
  HOST_CLOCK,
  isWhole,
  itemBytes,
  type Observer,
  ShardlabError,
  type Tag,
} from '../../core';
import * as tf from '../../core/tf';
import { type BlasAbsent, type BlasInfo, type BlasOptions, findBlas, loadKoffi } from './blas';
import { BufferTable } from './buffer-table';
import { markEngine } from './current-engine';
import type { Engine, EngineMemory, Storage } from './engine';
import { registerFusedKernels } from './fused/register';
import { type HeapDamage, HeapHealth } from './heap-health';
import { type HostMemory, WasmHostMemory } from './host-arrays';
import { type Interrupts, NO_INTERRUPTS } from './interrupts';
import { guardKernels } from './kernel-guard';
import { loadFusedKernels } from './kernels/fused-kernels';
import { registerMended } from './mended/register';
import { registerProducts } from './products';
import { unwindTfjs } from './tfjs-state';
import { undone } from './undone';
import { startWasmBackend, type WasmModule } from './wasm-backend';
import { offsetOf, type WasmContext } from './wasm-context';
import { type ArrayPlaces, WasmElementwise } from './wasm-elementwise';
import { freeingOnError, freeSince, type MemoryLimit, observeAllocations } from './wasm-memory';

/** Options of the engine. Only the BLAS may use several threads; all other kernels run on one thread. */
export interface WasmEngineOptions extends BlasOptions {
  /** Largest number of bytes of all buffers together; above it, allocations throw OUT_OF_MEMORY. Default: the heap's 4 GiB. */
  readonly memoryLimit?: Bytes;
  /** Returns the cell and line of the running code, for errors. Default: errors name no cell and line. */
  readonly place?: () => string;
  /** The interrupts of this process's work. Default: no interrupts. */
  readonly interrupts?: Interrupts;
}

/**
 * Starts tfjs's wasm backend and adds matmuls by a BLAS, fused kernels, and reports of every buffer to observers.
 * A process has one engine: a new engine replaces the earlier one, whose tensors are lost.
 * Throws: ENGINE if the backend or the engine's own kernels are missing.
 */
export async function createWasmEngine(options: WasmEngineOptions = {}): Promise<Engine> {
  const table = new BufferTable();
  const { backend, complaints } = await startWasmBackend();
  const limit: MemoryLimit = { bytes: options.memoryLimit };
  const health = new HeapHealth(complaints, options.place);
  const interrupts = options.interrupts ?? NO_INTERRUPTS;
  observeAllocations(backend, table, limit, health, interrupts);
  const foundBlas = findBlas(options);
  const sgemm = foundBlas.library === null ? null : foundBlas.sgemm;
  const context: WasmContext = {
    backend,
    table,
    limit,
    health,
    interrupts,
    sgemm,
    hasValues: true,
    kernels: loadFusedKernels(backend.wasm.asm.memory),
    baseAddress: addressOf(backend.wasm),
  };
  registerEngineKernels(context);
  const blas =
    foundBlas.library === null
      ? foundBlas
      : { library: foundBlas.library, path: foundBlas.path, threads: foundBlas.threads };
  return new WasmEngine(context, blas);
}

/** Registers the engine's own kernels for the current backend, in place of tfjs's kernels. */
export function registerEngineKernels(context: WasmContext): void {
  registerMended(context);
  registerProducts(context);
  registerFusedKernels(context);
  guardKernels(context);
}

/** Returns the heap's address; 0 without koffi. V8 reserves the heap's whole address range, so the heap never moves. */
function addressOf(wasm: WasmModule): number {
  const native = loadKoffi();
  return native.koffi === null ? 0 : Number(native.koffi.address(new Uint8Array(wasm.HEAPU8.buffer)));
}

/** An engine that uses the kernels of this folder. */
export class WasmEngine extends WasmElementwise<tf.Tensor> implements Engine {
  readonly name: Engine['name'] = 'wasm';
  readonly clock: Clock = HOST_CLOCK;
  readonly blas: BlasInfo | BlasAbsent;
  readonly host: HostMemory;
  readonly #context: WasmContext;
  readonly #releases = new Set<() => void>();

  /** `host` is the memory of host arrays. Default: a second heap. */
  constructor(context: WasmContext, blas: BlasInfo | BlasAbsent, host?: HostMemory) {
    super(placesOn(context));
    this.#context = context;
    this.blas = blas;
    this.host = host ?? new WasmHostMemory(context, (tensor) => this.#touch(tensor));
    markEngine(context.backend, this);
  }

  get damage(): HeapDamage | undefined {
    return this.#context.health.damage;
  }

  get hasValues(): boolean {
    return this.#context.hasValues;
  }

  get currentTag(): Tag {
    return this.#context.table.currentTag;
  }

  tagged<T>(tag: Tag, work: () => T): T {
    return this.#context.table.tagged(tag, work);
  }

  retag(tensor: tf.Tensor, tag: Tag): void {
    this.#context.table.retag(tensor.dataId, tag);
  }

  tagOf(tensor: tf.Tensor): Tag {
    return this.#context.table.tagOf(tensor.dataId);
  }

  tagUnscoped(tag: Tag): void {
    this.#context.table.tagUnscoped(tag);
  }

  get memory(): EngineMemory {
    const { table, backend } = this.#context;
    return { bytes: table.bytes, numBuffers: table.size, heapBytes: backend.wasm.HEAPU8.length };
  }

  get numBuffersMade(): number {
    return this.#context.table.mark;
  }

  observe(observer: Observer): void {
    this.#context.table.observe(observer);
  }

  allocate(shape: readonly number[], dtype: DType, tag: Tag): tf.Tensor {
    const info = this.tagged(tag, () => this.#context.backend.makeOutput([...shape], dtype));
    return tf.engine().makeTensorFromTensorInfo(info);
  }

  storage(tensor: tf.Tensor): Storage {
    const { baseAddress, backend } = this.#context;
    const offset = this.#offset(tensor);
    this.#touch(tensor);
    const bytes = bytesOf(tensor);
    return {
      address: baseAddress === 0 ? 0 : baseAddress + offset,
      bytes,
      view: () => backend.wasm.HEAPU8.subarray(offset, offset + bytes),
    };
  }

  copyInto(target: tf.Tensor, offset: number, source: tf.Tensor): void {
    requireSameType('copyInto', target, source);
    if (!isWhole(offset, 0) || offset + source.size > target.size) {
      throw new ShardlabError(
        'SHAPE',
        `copyInto: ${source.size} elements at ${offset} do not fit into ${target.size}; give an offset from 0 to ` +
          `${target.size - source.size}.`,
      );
    }
    const from = this.#offset(source);
    const to = this.#offset(target) + offset * itemBytes(target.dtype as DType);
    this.#context.backend.wasm.HEAPU8.copyWithin(to, from, from + bytesOf(source));
    this.#touch(target);
  }

  round(target: tf.Tensor, dtype: 'bfloat16' | 'float16'): void {
    if (target.dtype !== 'float32')
      throw new ShardlabError(
        'SHAPE',
        `round works on float32 tensors, not on ${target.dtype} [${target.shape}].`,
      );
    const { roundToBfloat16, roundToFloat16 } = this.#context.kernels;
    const round = dtype === 'bfloat16' ? roundToBfloat16 : roundToFloat16;
    round(this.#offset(target), target.size);
    this.#touch(target);
  }

  withoutLimit<T>(work: () => T): T {
    const { limit } = this.#context;
    const { bytes } = limit;
    const restore = (): void => {
      limit.bytes = bytes;
    };
    return undone(this, restore, () => {
      limit.bytes = undefined;
      return work();
    });
  }

  allOrNothing<T>(work: () => T): T {
    const { mark } = this.#context.table;
    const forget = this.onRecover(() => freeSince(this.#context, mark));
    try {
      return freeingOnError(this.#context, work);
    } finally {
      forget();
    }
  }

  recover(keep: Iterable<tf.Tensor> = []): void {
    const spared = new Set<object>();
    for (const tensor of keep) spared.add(tensor.dataId);
    this.#context.table.unwind();
    const releases = [...this.#releases];
    this.#releases.clear();
    for (const release of releases) release();
    unwindTfjs((tensor) => spared.has(tensor.dataId));
    this.#context.table.recount();
  }

  onRecover(release: () => void): () => void {
    this.#releases.add(release);
    return () => void this.#releases.delete(release);
  }

  #offset(tensor: tf.Tensor): number {
    return offsetOf(this.#context, tensor);
  }

  #touch(tensor: tf.Tensor): void {
    touch(this.#context, tensor);
  }
}

function bytesOf(tensor: tf.Tensor): Bytes {
  // The engine makes tensors only of the types in DType.
  return tensor.size * itemBytes(tensor.dtype as DType);
}

/** Returns the object through which in-place updates access the backend's tensors. */
function placesOn(context: WasmContext): ArrayPlaces<tf.Tensor> {
  const { backend, kernels } = context;
  return {
    kernels,
    get heap() {
      return backend.wasm.HEAPU8;
    },
    offsetOf: (tensor) => offsetOf(context, tensor),
    changed: (tensor) => touch(context, tensor),
    reserve(bytes) {
      const start = backend.wasm._malloc(bytes) >>> 0;
      if (start !== 0) return start;
      throw new ShardlabError(
        'OUT_OF_MEMORY',
        `${bytes} bytes for tables do not fit on the engine's full heap.`,
      );
    },
  };
}

/**
 * Reports an in-place update to the backend, because tfjs's convolutions cache packed copies of values by tensor number;
 * without the report, a copy would be stale.
 */
function touch({ backend, interrupts }: WasmContext, tensor: tf.Tensor): void {
  const { id, memoryOffset } = backend.dataIdMap.get(tensor.dataId);
  interrupts.unbroken(() => {
    backend.wasm.tfjs.disposeData(id);
    backend.wasm.tfjs.registerTensor(id, tensor.size, memoryOffset ?? 0);
  });
}

function requireSameType(caller: string, target: tf.Tensor, source: tf.Tensor): void {
  if (target.dtype === source.dtype) return;
  throw new ShardlabError(
    'SHAPE',
    `${caller}: ${source.dtype} values cannot be copied into a ${target.dtype} tensor; cast them first.`,
  );
}
