import * as tf from '@tensorflow/tfjs';
import { ShardlabError } from '../core/errors';
import { HEAP_END, outOfMemory } from './out-of-memory';
import type { WasmBackend } from './wasm-backend';
import { isReplaced } from './wasm-context';
import { freeingOnError, tableOf } from './wasm-memory';

const GUARDED = Symbol('its traps become errors');

/** A full heap makes C++ code trap in many ways; above this share of it, memory is the likely reason. */
const NEARLY_FULL = 0.9;

/** A kernel's scratch is rarely larger; a heap that cannot give so much is the likely reason of a trap. */
const PROBE_BYTES = 64 * 2 ** 20;

/**
 * Turns traps of tfjs's own wasm kernels ("unreachable executed") into errors: a kernel's scratch memory may not fit where
 * its tensors do. Call it before kernels are replaced.
 */
export function guardKernels(): void {
  for (const config of tf.getKernelsForBackend('wasm')) {
    if (GUARDED in config || isReplaced(config)) continue;
    const { kernelName, kernelFunc } = config;
    const guarded: tf.KernelFunc = (call) => {
      try {
        // The guarded kernels are the wasm backend's.
        return freeingOnError(call.backend as WasmBackend, () => kernelFunc(call));
      } catch (error) {
        throw error instanceof WebAssembly.RuntimeError ? explain(error, kernelName) : error;
      }
    };
    tf.unregisterKernel(kernelName, 'wasm');
    tf.registerKernel(Object.assign({ ...config, kernelFunc: guarded }, { [GUARDED]: true }));
  }
}

function explain(trap: WebAssembly.RuntimeError, kernel: string): ShardlabError {
  // The guarded kernels are the wasm backend's.
  const backend = tf.backend() as unknown as WasmBackend;
  const heap = backend.wasm.HEAPU8.length;
  const isFull = heap > NEARLY_FULL * HEAP_END;
  if (isFull || !canGrow(backend)) {
    const { currentTag: tag, bytes: held, holdings } = tableOf(backend);
    const request = { bytes: 0, shape: [], dtype: `scratch of ${kernel}`, tag, held, holdings } as const;
    return outOfMemory({
      ...request,
      ...(isFull ? { boundary: 'heap', limit: HEAP_END } : { boundary: 'host', limit: heap }),
    });
  }
  return new ShardlabError(
    'ENGINE',
    `The wasm kernel ${kernel} trapped (${trap.message}). Start the engine anew: its heap may be damaged.`,
    { cause: trap, details: { kernel, heap } },
  );
}

/** Whether the heap gives what a kernel's scratch may need. */
function canGrow({ wasm }: WasmBackend): boolean {
  try {
    const start = wasm._malloc(PROBE_BYTES);
    if (start !== 0) wasm._free(start);
    return start !== 0;
  } catch {
    // A heap that the trap has damaged says nothing about memory.
    return true;
  }
}
