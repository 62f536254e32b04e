import { ShardlabError } from '../../core';
import * as tf from '../../core/tf';
import type { Sgemm } from './blas';
import type { BufferTable } from './buffer-table';
import type { HeapHealth } from './heap-health';
import type { Interrupts } from './interrupts';
import type { FusedKernels } from './kernels/fused-kernels';
import type { WasmBackend } from './wasm-backend';
import type { MemoryLimit } from './wasm-memory';

/** The parts of the engine that its kernels use. */
export interface WasmContext {
  readonly backend: WasmBackend;
  readonly table: BufferTable;
  readonly limit: MemoryLimit;
  readonly kernels: FusedKernels;
  /** Address of the heap's first byte in this process; the heap never moves. 0 if native code cannot read the heap. */
  readonly baseAddress: number;
  /** The BLAS's matmul, whose operands are addresses; null without a BLAS. */
  readonly sgemm: Sgemm | null;
  /** Whether buffers have bytes; if buffers have no bytes, kernels need not move values. */
  readonly hasValues: boolean;
  /** The heap's state: after a trap, values on the heap may be wrong. */
  readonly health: HeapHealth;
  readonly interrupts: Interrupts;
}

/** Returns the byte offset of a tensor's values on the heap. Throws: ENGINE if the heap is damaged. */
export function offsetOf(context: WasmContext, info: tf.TensorInfo): number {
  context.health.requireSound();
  // Only strings have no offset, and no kernel here has string inputs.
  return context.backend.dataIdMap.get(info.dataId).memoryOffset as number;
}

/** Returns the BLAS's matmul, or else the engine's own matmul for small matrices; operands are byte offsets on the heap. */
export function heapProduct({ sgemm, baseAddress: base, kernels }: WasmContext): Sgemm {
  if (sgemm === null) return kernels.product;
  return (transposeA, transposeB, m, n, k, a, lda, b, ldb, beta, c, ldc) =>
    sgemm(transposeA, transposeB, m, n, k, base + a, lda, base + b, ldb, beta, base + c, ldc);
}

/** Returns the number of elements of a shape. */
export function sizeOf(shape: readonly number[]): number {
  return shape.reduce((product, length) => product * length, 1);
}

/** Returns a tensor of another shape on the same buffer, and counts one more reference to the buffer. */
export function aliasOf(context: WasmContext, info: tf.TensorInfo, shape: number[]): tf.TensorInfo {
  context.backend.incRef(info.dataId);
  return { dataId: info.dataId, shape, dtype: info.dtype };
}

/** Whether no other tensor shares the tensor's buffer. */
export function ownsBufferAlone(context: WasmContext, info: tf.TensorInfo): boolean {
  return context.backend.refCount(info.dataId) === 1;
}

export type Inputs = Readonly<Record<string, tf.TensorInfo>>;
export type Attributes = Readonly<Record<string, unknown>>;

/** A kernel of the engine: a function of inputs and attributes that returns outputs. */
export type Kernel = (inputs: Inputs, attrs: Attributes) => tf.TensorInfo | tf.TensorInfo[];

const ORIGINAL = Symbol('the kernel that was replaced');

interface ReplacedConfig extends tf.KernelConfig {
  readonly [ORIGINAL]?: tf.KernelConfig | null;
}

/**
 * Registers a kernel of the current backend in place of tfjs's kernel; `make` gets tfjs's kernel, or null if there is none.
 * A process may start several engines one after another, so a second call replaces the kernel of the first call.
 */
export function replaceKernel(kernelName: string, make: (original: Kernel | null) => Kernel): void {
  // tfjs returns undefined for an unknown kernel; its types do not allow this.
  const backendName = tf.getBackend();
  const present = tf.getKernel(kernelName, backendName) as ReplacedConfig | undefined;
  const original =
    present === undefined ? null : (present[ORIGINAL] ?? (ORIGINAL in present ? null : present));
  if (present !== undefined) tf.unregisterKernel(kernelName, backendName);
  const kernel = make(original === null ? null : (inputs, attrs) => runOriginal(original, inputs, attrs));
  const config: ReplacedConfig = {
    kernelName,
    backendName,
    // In the type Inputs, an input may be missing, because tfjs omits optional inputs.
    kernelFunc: ({ inputs, attrs }) => kernel(inputs as Inputs, (attrs ?? {}) as Attributes),
    ...(original?.setupFunc === undefined ? {} : { setupFunc: original.setupFunc }),
    [ORIGINAL]: original,
  };
  tf.registerKernel(config);
}

function runOriginal(
  original: tf.KernelConfig,
  inputs: Inputs,
  attrs: Attributes,
): tf.TensorInfo | tf.TensorInfo[] {
  return original.kernelFunc({
    inputs: inputs as tf.NamedTensorInfoMap,
    attrs: attrs as tf.NamedAttrMap,
    backend: tf.backend(),
  });
}

/** Runs a kernel of the backend; tfjs's tapes and scopes do not record the kernel. */
export function runKernel(kernelName: string, inputs: Inputs, attrs: Attributes = {}): tf.TensorInfo {
  // Callers name only kernels with one output.
  return runOriginal(tf.getKernel(kernelName, tf.getBackend()), inputs, attrs) as tf.TensorInfo;
}

/** Frees `old` and returns `result`, which replaces `old`. */
export function replaced(context: WasmContext, old: tf.TensorInfo, result: tf.TensorInfo): tf.TensorInfo {
  context.backend.disposeData(old.dataId);
  return result;
}

/** Returns a value that tfjs always passes, such as a kernel's input. Throws: INTERNAL if the value is missing. */
export function present<T>(value: T | null | undefined): T {
  if (value === null || value === undefined)
    throw new ShardlabError('INTERNAL', 'A kernel was called without an input that it needs.');
  return value;
}

export type ConvInfo = ReturnType<typeof tf.backend_util.computeConv2DInfo>;
type ConvArguments = Parameters<typeof tf.backend_util.computeConv2DInfo>;

/** Returns the sizes of a convolution over images, from the attributes of tfjs's kernel. The shapes must have four axes. */
export function conv2DInfo(
  inputShape: readonly number[],
  filterShape: readonly number[],
  { strides, dilations, pad, dimRoundingMode }: Attributes,
  depthwise: boolean,
  dataFormat?: ConvArguments[7],
): ConvInfo {
  return tf.backend_util.computeConv2DInfo(
    inputShape as ConvArguments[0],
    filterShape as ConvArguments[1],
    strides as ConvArguments[2],
    (dilations ?? 1) as ConvArguments[3],
    pad as ConvArguments[4],
    dimRoundingMode as ConvArguments[5],
    depthwise,
    dataFormat,
  );
}
