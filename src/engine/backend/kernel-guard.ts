import { ShardlabError } from '../../core';
import * as tf from '../../core/tf';
import { checkOf } from './checks/kernel-checks';
import { FULL_HEAP, HEAP_END, outOfMemory } from './out-of-memory';
import type { WasmBackend } from './wasm-backend';
import type { Attributes, Inputs, WasmContext } from './wasm-context';
import { freeingOnError } from './wasm-memory';

const BENEATH = Symbol('the kernel without its guard');

interface GuardedConfig extends tf.KernelConfig {
  readonly [BENEATH]?: tf.KernelFunc;
}

/**
 * On a full heap, C++ code traps in many ways. If a kernel traps while the heap is larger than this share of 4 GiB, a full heap
 * is the likely reason.
 */
const NEARLY_FULL = 0.9;

/**
 * Size of a test allocation; a kernel's scratch is rarely larger. If the test allocation fails, a full heap is the likely
 * reason.
 */
const PROBE_BYTES = 64 * 2 ** 20;

/**
 * Puts a guard around every kernel of the current backend. The guard checks the kernel's arguments ([Note: checked kernels]).
 * If the kernel throws, the guard frees the kernel's tensors. Interrupted work ends when its next kernel begins
 * ([Note: interrupted operations]). The guard throws an error if the kernel traps in WebAssembly, or if C++ code prints a
 * message instead of writing a result. Call this function after all kernels are registered.
 */
export function guardKernels(context: WasmContext): void {
  const { health, interrupts } = context;
  for (const config of tf.getKernelsForBackend(tf.getBackend()) as GuardedConfig[]) {
    const { kernelName } = config;
    const kernelFunc = config[BENEATH] ?? config.kernelFunc;
    const check = checkOf(context, kernelName);
    const run: tf.KernelFunc = (call) => {
      try {
        const made = kernelFunc(call);
        if (health.complaints.length > 0) throw complained(context, kernelName);
        return made;
      } catch (error) {
        throw error instanceof WebAssembly.RuntimeError ? explain(context, error, kernelName) : error;
      }
    };
    const guarded: tf.KernelFunc = (call) => {
      health.requireSound();
      interrupts.check();
      // tfjs's types of inputs and attributes allow the same values as Inputs and Attributes.
      check(call.inputs as Inputs, (call.attrs ?? {}) as Attributes);
      return interrupts.unbroken(() => freeingOnError(context, () => run(call)));
    };
    tf.unregisterKernel(kernelName, config.backendName);
    tf.registerKernel(Object.assign({ ...config, kernelFunc: guarded }, { [BENEATH]: kernelFunc }));
  }
}

/** Returns the error for a kernel that did not write its output. The error quotes the messages that the C++ code printed. */
function complained({ health, table }: WasmContext, kernel: string): ShardlabError {
  const said = health.complaints.splice(0).join(' ');
  const { module } = table.currentTag;
  return new ShardlabError(
    'ENGINE',
    `the wasm kernel ${kernel}${module === '' ? '' : ` in ${module}`} did not compute: ${said} Use other types or sizes.`,
    { details: { kernel, module } },
  );
}

function explain(context: WasmContext, trap: WebAssembly.RuntimeError, kernel: string): ShardlabError {
  const { backend, health, table } = context;
  health.complaints.length = 0;
  const heap = backend.wasm.HEAPU8.length;
  const isFull = heap > NEARLY_FULL * HEAP_END;
  if (isFull || !canGrow(backend)) {
    const end = isFull ? FULL_HEAP : ({ boundary: 'host', limit: heap } as const);
    return outOfMemory(table, { bytes: 0, shape: [], dtype: `scratch of ${kernel}`, ...end });
  }
  return health.trapped(kernel, table.currentTag.module, trap);
}

/** Returns whether the heap has room for the scratch that a kernel may need. */
function canGrow({ wasm }: WasmBackend): boolean {
  try {
    const start = wasm._malloc(PROBE_BYTES);
    if (start !== 0) wasm._free(start);
    return start !== 0;
  } catch {
    // malloc trapped, so the kernel's trap has damaged the heap; a full heap is not the reason.
    return true;
  }
}
