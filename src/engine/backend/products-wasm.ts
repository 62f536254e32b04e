import type * as tf from '../../core/tf';
import { aliasOf, offsetOf, sizeOf, type WasmContext } from './wasm-context';

/** A matmul over broadcast batches: op(A) is [m, k], op(B) is [k, n]. */
export interface BroadcastMatmul {
  readonly transposeA: boolean;
  readonly transposeB: boolean;
  readonly m: number;
  readonly n: number;
  readonly k: number;
  readonly batch: readonly number[];
}

/** tfjs's wasm matmul; a, b and out are the numbers by which the backend identifies tensors. */
type MatMul = (
  a: number,
  aShape: Uint8Array,
  aRank: number,
  b: number,
  bShape: Uint8Array,
  bRank: number,
  transposeA: boolean,
  transposeB: boolean,
  out: number,
) => void;

/**
 * Returns a matmul that calls tfjs's wasm kernel for one pair of matrices at a time and first transposes operands. The kernel
 * itself is about 7 times slower for batches, and about 25 times slower for transposed operands.
 */
export function wasmMultiplier(
  context: WasmContext,
): (a: tf.TensorInfo, b: tf.TensorInfo, product: BroadcastMatmul) => tf.TensorInfo {
  const types = ['number', 'array', 'number', 'number', 'array', 'number', 'number', 'number', 'number'];
  const matMul = context.backend.wasm.cwrap('BatchMatMul', null, types) as MatMul;
  return (a, b, product) => {
    const out = context.backend.makeOutput([...product.batch, product.m, product.n], 'float32');
    if (sizeOf(out.shape) === 0) return out;
    if (product.k === 0) {
      context.kernels.fill(offsetOf(context, out), 0, sizeOf(out.shape));
      return out;
    }
    requireScratch(context, product);
    const left = operand(context, a, product.transposeA);
    try {
      const right = operand(context, b, product.transposeB);
      multiplyEach(context, matMul, left, right, out, product);
      context.backend.disposeData(right.dataId);
    } finally {
      context.backend.disposeData(left.dataId);
    }
    return out;
  };
}

/** Returns an alias of the operand, or its transpose if `isTransposed`; the caller frees the result. */
function operand(context: WasmContext, info: tf.TensorInfo, isTransposed: boolean): tf.TensorInfo {
  return isTransposed ? transposed(context, info) : aliasOf(context, info, info.shape);
}

function multiplyEach(
  context: WasmContext,
  matMul: MatMul,
  left: tf.TensorInfo,
  right: tf.TensorInfo,
  out: tf.TensorInfo,
  product: BroadcastMatmul,
): void {
  const { n, k, batch } = product;
  const isTall = !product.transposeA && sizeOf(right.shape) === k * n;
  const numProducts = isTall ? 1 : sizeOf(batch);
  const m = isTall ? sizeOf(left.shape) / k : product.m;
  const [aShape, bShape] = [shapeBytes(1, m, k), shapeBytes(1, k, n)];
  const aIndex = batchIndex(left.shape.slice(0, -2), batch);
  const bIndex = batchIndex(right.shape.slice(0, -2), batch);
  const at = (info: tf.TensorInfo): number => offsetOf(context, info);
  for (let i = 0; i < numProducts; i++) {
    const a = numbered(context, at(left) + 4 * aIndex(i) * m * k, m * k);
    const b = numbered(context, at(right) + 4 * bIndex(i) * k * n, k * n);
    const c = numbered(context, at(out) + 4 * i * m * n, m * n);
    matMul(a, aShape, 3, b, bShape, 3, false, false, c);
    for (const id of [a, b, c]) context.backend.wasm.tfjs.disposeData(id);
  }
}

/**
 * Registers a part of the heap as a tensor and returns its number. No number is used twice, because wasm's matmul caches a
 * packed copy of its right operand by number, and the copy is not updated by in-place updates.
 */
function numbered({ backend }: WasmContext, offset: number, size: number): number {
  const id = backend.dataIdNextNumber++;
  backend.wasm.tfjs.registerTensor(id, size, offset);
  return id;
}

function shapeBytes(...shape: number[]): Uint8Array {
  return new Uint8Array(Int32Array.from(shape).buffer);
}

/** Returns a function that maps a position in the broadcast batch to the position in the operand's batch. */
export function batchIndex(own: readonly number[], batch: readonly number[]): (position: number) => number {
  const size = sizeOf(own);
  if (size === sizeOf(batch)) return (position) => position;
  if (size === 1) return () => 0;
  const padded = [...Array<number>(batch.length - own.length).fill(1), ...own];
  return (position) => {
    let index = 0;
    let stride = 1;
    let rest = position;
    for (let axis = batch.length - 1; axis >= 0; axis--) {
      const [length = 1, ownLength = 1] = [batch[axis], padded[axis]];
      if (ownLength > 1) index += (rest % length) * stride;
      stride *= ownLength;
      rest = Math.floor(rest / length);
    }
    return index;
  };
}

/**
 * Checks that the packed copy of the right operand fits: without memory for it, wasm's matmul only warns and writes no result.
 */
function requireScratch(context: WasmContext, { k, n }: BroadcastMatmul): void {
  const { wasm } = context.backend;
  const packed = wasm._malloc(4 * (k + 16) * (n + 16)) >>> 0;
  if (packed !== 0) {
    wasm._free(packed);
    return;
  }
  // The heap has no room, so this allocation throws OUT_OF_MEMORY.
  context.backend.disposeData(context.backend.makeOutput([k + 16, n + 16], 'float32').dataId);
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
