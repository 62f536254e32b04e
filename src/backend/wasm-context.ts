import { ShardlabError } from '../core/errors';
import * as tf from '../core/tf';
import type { Sgemm } from './blas';
import type { BufferTable } from './buffer-table';
import type { HeapHealth } from './heap-health';
import type { FusedKernels } from './kernels/fused-kernels';
import type { WasmBackend } from './wasm-backend';
import type { MemoryLimit } from './wasm-memory';

/** What the engine's kernels work with. */
export interface WasmContext {
  readonly backend: WasmBackend;
  readonly table: BufferTable;
  readonly limit: MemoryLimit;
  readonly kernels: FusedKernels;
  /** Address of the heap's first byte in this process; it never moves. 0 where native code cannot reach it. */
  readonly baseAddress: number;
  /** The BLAS's product on addresses; null without one. */
  readonly sgemm: Sgemm | null;
  /** Whether buffers have bytes: a kernel that moves them one by one may leave that out where they have none. */
  readonly hasValues: boolean;
  /** Whether the heap can be trusted. */
  readonly health: HeapHealth;
}

/** Byte offset of a tensor's values on the heap. Throws: ENGINE when the heap is damaged. */
export function offsetOf(context: WasmContext, info: tf.TensorInfo): number {
  context.health.requireSound();
  // Strings alone have no offset, and no kernel here takes them.
  return context.backend.dataIdMap.get(info.dataId).memoryOffset as number;
}

/** Number of elements of a shape. */
export function sizeOf(shape: readonly number[]): number {
  return shape.reduce((product, length) => product * length, 1);
}

/** Another view of a buffer: same values, another shape, one reference more. */
export function aliasOf(context: WasmContext, info: tf.TensorInfo, shape: number[]): tf.TensorInfo {
  context.backend.incRef(info.dataId);
  return { dataId: info.dataId, shape, dtype: info.dtype };
}

/** True when nobody else holds the tensor's buffer. */
export function isSoleOwner(context: WasmContext, info: tf.TensorInfo): boolean {
  return context.backend.refCount(info.dataId) === 1;
}

export type Inputs = Readonly<Record<string, tf.TensorInfo>>;
export type Attributes = Readonly<Record<string, unknown>>;

/** A kernel as the engine writes it: tensors in, tensors out. */
export type Kernel = (inputs: Inputs, attrs: Attributes) => tf.TensorInfo | tf.TensorInfo[];

const ORIGINAL = Symbol('the kernel that was replaced');

interface ReplacedConfig extends tf.KernelConfig {
  readonly [ORIGINAL]?: tf.KernelConfig | null;
}

/**
 * Registers a kernel of the current backend in place of tfjs's own, if there is one; `make` gets tfjs's own.
 * Replacing again replaces the replacement: a process may start several engines one after another.
 */
export function replaceKernel(kernelName: string, make: (original: Kernel | null) => Kernel): void {
  // tfjs answers undefined for an unknown kernel; its types do not say so.
  const backendName = tf.getBackend();
  const present = tf.getKernel(kernelName, backendName) as ReplacedConfig | undefined;
  const original =
    present === undefined ? null : (present[ORIGINAL] ?? (ORIGINAL in present ? null : present));
  if (present !== undefined) tf.unregisterKernel(kernelName, backendName);
  const kernel = make(original === null ? null : (inputs, attrs) => runOriginal(original, inputs, attrs));
  const config: ReplacedConfig = {
    kernelName,
    backendName,
    // tfjs's names may be missing, as Inputs says.
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

/** Runs one of the backend's kernels on tensor infos, outside tfjs's bookkeeping. */
export function runKernel(kernelName: string, inputs: Inputs, attrs: Attributes = {}): tf.TensorInfo {
  // Only kernels with one output are run this way.
  return runOriginal(tf.getKernel(kernelName, tf.getBackend()), inputs, attrs) as tf.TensorInfo;
}

/** `result`, after its predecessor `old` was let go. */
export function replaced(context: WasmContext, old: tf.TensorInfo, result: tf.TensorInfo): tf.TensorInfo {
  context.backend.disposeData(old.dataId);
  return result;
}

/** A kernel's input (or the kernel beneath) that tfjs always gives. Throws: INTERNAL when it did not. */
export function given<T>(value: T | null | undefined): T {
  if (value === null || value === undefined)
    throw new ShardlabError('INTERNAL', 'A kernel was called without an input that it needs.');
  return value;
}

export type ConvInfo = ReturnType<typeof tf.backend_util.computeConv2DInfo>;
type ConvArguments = Parameters<typeof tf.backend_util.computeConv2DInfo>;

/** The sizes of a convolution over images, from the attributes of tfjs's kernels. The shapes must have four axes. */
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
