import { dirname } from 'node:path';
import * as tfWasm from '@tensorflow/tfjs-backend-wasm';
import { ShardlabError } from '../../core';
import * as tf from '../../core/tf';
import { HEAP_END } from './out-of-memory';

/** tfjs's record of a buffer on the wasm heap. `memoryOffset` is null for strings, which JavaScript stores. */
export interface TensorData {
  readonly id: number;
  readonly memoryOffset: number | null;
  readonly shape: readonly number[];
  readonly dtype: tf.DataType;
  refCount: number;
}

/** The parts of the Emscripten module that the engine uses. */
export interface WasmModule {
  readonly HEAPU8: Uint8Array;
  readonly asm: { readonly memory: WebAssembly.Memory };
  _malloc(bytes: number): number;
  _free(offset: number): void;
  /** Returns the function `name` of the module; 'array' arguments are copied to the module's stack. */
  cwrap(name: string, result: string | null, arguments_: readonly string[]): (...values: never[]) => unknown;
  readonly tfjs: {
    registerTensor(id: number, size: number, offset: number): void;
    disposeData(id: number): void;
  };
}

/** tfjs's wasm backend, with members that its types hide. Source: tfjs-backend-wasm 4.22, backend_wasm.ts. */
export interface WasmBackend {
  readonly wasm: WasmModule;
  readonly dataIdMap: {
    get(dataId: object): TensorData;
    has(dataId: object): boolean;
    set(dataId: object, data: TensorData): void;
    delete(dataId: object): boolean;
  };
  dataIdNextNumber: number;
  move(
    dataId: object,
    values: ArrayBufferView | null,
    shape: number[],
    dtype: tf.DataType,
    refCount: number,
  ): void;
  disposeData(dataId: object, force?: boolean): boolean;
  makeOutput(
    shape: readonly number[],
    dtype: tf.DataType,
    memoryOffset?: number | null,
    values?: ArrayBufferView,
  ): tf.TensorInfo;
  incRef(dataId: object): void;
  refCount(dataId: object): number;
  readSync(dataId: object, start?: number, end?: number): tf.backend_util.BackendValues;
  typedArrayFromHeap(info: tf.TensorInfo): Float32Array | Int32Array | Uint8Array;
}

const NAME = 'wasm';
const WASM_PAGE_BYTES = 65536;

/** A backend, and the messages that its C++ code prints from now on if a kernel cannot compute its result. */
export interface StartedBackend {
  readonly backend: WasmBackend;
  readonly complaints: string[];
}

/**
 * Starts a new single-threaded wasm backend and makes it tfjs's current backend. A process has one wasm backend: a new one
 * replaces the earlier one, whose tensors are lost. Throws: ENGINE if WebAssembly SIMD or tfjs's binary is missing.
 */
export async function startWasmBackend(): Promise<StartedBackend> {
  tfWasm.setWasmPaths(`${dirname(require.resolve('@tensorflow/tfjs-backend-wasm'))}/`);
  tfWasm.setThreadsCount(1);
  tf.env().set('WASM_HAS_MULTITHREAD_SUPPORT', false);
  const factory = tf.findBackendFactory(NAME);
  if (factory === null) throw missing('tfjs-backend-wasm did not register itself');
  if (tf.engine().registry[NAME] !== undefined) {
    tf.removeBackend(NAME);
    tf.registerBackend(NAME, factory, 2);
  }
  const complaints: string[] = [];
  const start = (): Promise<boolean> => printingTo(complaints, () => tf.setBackend(NAME));
  if (!(await withoutNewListeners(start)))
    throw refusedMemory() ?? missing('tfjs could not start it (the lines above say why)');
  // The backend's class declares these members private or not at all.
  return { backend: tf.backend() as unknown as WasmBackend, complaints };
}

/**
 * Runs `start`, which starts the backend. C++ code always prints to the console that existed at the start; after the start,
 * this console appends messages to `list`.
 */
async function printingTo(list: string[], start: () => Promise<boolean>): Promise<boolean> {
  const before = globalThis.console;
  let isStarted = false;
  const printer =
    (name: 'log' | 'warn') =>
    (...said: unknown[]): void => {
      if (isStarted) list.push(said.join(' '));
      else before[name](...said);
    };
  const listening: Console = Object.create(before);
  globalThis.console = Object.assign(listening, { log: printer('log'), warn: printer('warn') });
  try {
    return await start();
  } finally {
    globalThis.console = before;
    isStarted = true;
  }
}

const CRASH_EVENTS = ['uncaughtException', 'unhandledRejection'] as const;

/** Runs `work` and removes the handlers by which Emscripten's start code rethrows every uncaught error of the process. */
async function withoutNewListeners<T>(work: () => Promise<T>): Promise<T> {
  const before = CRASH_EVENTS.map((event) => new Set<unknown>(process.rawListeners(event)));
  try {
    return await work();
  } finally {
    CRASH_EVENTS.forEach((event, i) => {
      for (const listener of process.rawListeners(event)) {
        // In the types of rawListeners, a listener is any function.
        if (!before[i]?.has(listener)) process.removeListener(event, listener as () => void);
      }
    });
  }
}

/** Returns an error if the process may not reserve the addresses of a wasm heap, else undefined. */
function refusedMemory(): ShardlabError | undefined {
  try {
    new WebAssembly.Memory({ initial: 256, maximum: HEAP_END / WASM_PAGE_BYTES });
    return undefined;
  } catch (cause) {
    return new ShardlabError(
      'OUT_OF_MEMORY',
      'The wasm engine cannot start: this process may not reserve addresses for a heap (10 GB of addresses, ' +
        'not of memory); raise the limit of virtual memory (ulimit -v unlimited).',
      { cause },
    );
  }
}

function missing(reason: string): ShardlabError {
  return new ShardlabError(
    'ENGINE',
    `The wasm engine is not available: ${reason}. Install shardlab again (in the clone: npm run build) and use Node 20.19 or newer.`,
  );
}
