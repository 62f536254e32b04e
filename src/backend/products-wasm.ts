import type * as tf from '@tensorflow/tfjs';
import { aliasOf, type Kernel, offsetOf, replaced, runKernel, sizeOf, type WasmContext } from './wasm-context';

/** One matrix product over broadcast batches: op(A) is [m, k], op(B) [k, n]. */
export interface Product {
  readonly transposeA: boolean;
  readonly transposeB: boolean;
  readonly m: number;
  readonly n: number;
  readonly k: number;
  readonly batch: readonly number[];
}

/** wasm's own product. Its loops over transposed operands are some 25 times slower than transposing first. */
export function multiplyByWasm(
  context: WasmContext, original: Kernel, a: tf.TensorInfo, b: tf.TensorInfo, product: Product,
): tf.TensorInfo {
  const left = product.transposeA ? transposed(context, a) : aliasOf(context, a, a.shape);
  const right = withFreshId(context, product.transposeB ? transposed(context, b) : aliasOf(context, b, b.shape));
  try {
    const plain = { transposeA: false, transposeB: false };
    const numProducts = sizeOf(product.batch);
    const sizes = [sizeOf(left.shape.slice(0, -2)), sizeOf(right.info.shape.slice(0, -2))];
    if (sizes.every((size) => size === 1 || size === numProducts)) {
      return original({ a: left, b: right.info }, plain) as tf.TensorInfo;
    }
    return broadcastFirst(context, original, left, right.info, product);
  } finally {
    context.backend.disposeData(left.dataId);
    right.dispose();
  }
}

/** Repeats the operands over the batch: wasm's kernel broadcasts a batch of one only. */
function broadcastFirst(
  context: WasmContext, original: Kernel, a: tf.TensorInfo, b: tf.TensorInfo, { batch, m, n, k }: Product,
): tf.TensorInfo {
  const zeros = (shape: number[]): tf.TensorInfo => {
    const info = context.backend.makeOutput(shape, 'float32');
    context.kernels.fill(offsetOf(context, info), 0, sizeOf(shape));
    return info;
  };
  const repeat = (info: tf.TensorInfo, shape: number[]): tf.TensorInfo => {
    const zero = zeros(shape);
    return replaced(context, zero, runKernel('Add', { a: zero, b: info }));
  };
  const left = repeat(a, [...batch, m, k]);
  const right = repeat(b, [...batch, k, n]);
  try {
    return original({ a: left, b: right }, { transposeA: false, transposeB: false }) as tf.TensorInfo;
  } finally {
    context.backend.disposeData(left.dataId);
    context.backend.disposeData(right.dataId);
  }
}

function transposed(context: WasmContext, info: tf.TensorInfo): tf.TensorInfo {
  const [rows = 0, columns = 0] = info.shape.slice(-2);
  const out = context.backend.makeOutput([...info.shape.slice(0, -2), columns, rows], 'float32');
  const numMatrices = sizeOf(info.shape.slice(0, -2));
  for (let i = 0; i < numMatrices; i++) {
    const skip = i * rows * columns * 4;
    context.kernels.transpose(offsetOf(context, info) + skip, offsetOf(context, out) + skip, rows, columns);
  }
  return out;
}

/**
 * The same buffer under a new number: wasm's product keeps a packed copy of its right operand by number, which would be
 * stale after an update in place.
 */
function withFreshId(context: WasmContext, info: tf.TensorInfo): { info: tf.TensorInfo; dispose: () => void } {
  const { backend } = context;
  const id = backend.dataIdNextNumber++;
  const dataId = { id };
  const memoryOffset = offsetOf(context, info);
  backend.dataIdMap.set(dataId, { id, memoryOffset, shape: info.shape, dtype: info.dtype, refCount: 1 });
  backend.wasm.tfjs.registerTensor(id, sizeOf(info.shape), memoryOffset);
  const dispose = (): void => {
    backend.wasm.tfjs.disposeData(id);
    backend.dataIdMap.delete(dataId);
    backend.disposeData(info.dataId);
  };
  return { info: { dataId, shape: info.shape, dtype: info.dtype }, dispose };
}

