import { ShardlabError } from '../../core';
import * as tf from '../../core/tf';
import type { Sgemm } from './blas';
import {
  aliasOf,
  offsetOf,
  present,
  replaced,
  replaceKernel,
  runKernel,
  sizeOf,
  type WasmContext,
} from './wasm-context';

/**
 * Replaces BatchMatMul and _FusedMatMul by kernels that use the BLAS. Without a BLAS, they transpose operands and use wasm's
 * matmul.
 */
export function registerProducts(context: WasmContext): void {
  const multiply = multiplier(context);
  replaceKernel('BatchMatMul', () => ({ a, b }, attrs) => {
    return multiply(present(a), present(b), readProduct(present(a), present(b), attrs), null);
  });
  replaceKernel('_FusedMatMul', () => ({ a, b, bias, preluActivationWeights }, attrs) => {
    const product = readProduct(present(a), present(b), attrs);
    const isRow = bias?.shape.at(-1) === product.n && sizeOf(bias.shape) === product.n;
    let out = multiply(present(a), present(b), product, isRow ? bias : null);
    if (bias && !isRow) out = replaced(context, out, runKernel('Add', { a: out, b: bias }));
    return activate(context, out, attrs, preluActivationWeights);
  });
}

type Multiply = (
  a: tf.TensorInfo,
  b: tf.TensorInfo,
  product: BroadcastMatmul,
  bias: tf.TensorInfo | null,
) => tf.TensorInfo;

function multiplier(context: WasmContext): Multiply {
  const { sgemm } = context;
  if (sgemm !== null) return (a, b, product, bias) => multiplyByBlas(context, sgemm, a, b, product, bias);
  const multiply = wasmMultiplier(context);
  return (a, b, product, bias) => {
    const out = multiply(a, b, product);
    return bias === null ? out : replaced(context, out, runKernel('Add', { a: out, b: bias }));
  };
}

function readProduct(
  a: tf.TensorInfo,
  b: tf.TensorInfo,
  attrs: Readonly<Record<string, unknown>>,
): BroadcastMatmul {
  const transposeA = Boolean(attrs.transposeA);
  const transposeB = Boolean(attrs.transposeB);
  const [rowsA = 0, columnsA = 0] = a.shape.slice(-2);
  const [rowsB = 0, columnsB = 0] = b.shape.slice(-2);
  const [m, k] = transposeA ? [columnsA, rowsA] : [rowsA, columnsA];
  const [inner, n] = transposeB ? [columnsB, rowsB] : [rowsB, columnsB];
  if (a.dtype !== 'float32' || b.dtype !== 'float32' || k !== inner) {
    const side = (info: tf.TensorInfo, flag: boolean): string =>
      `${info.dtype} [${info.shape}]${flag ? ' transposed' : ''}`;
    throw new ShardlabError(
      'SHAPE',
      `matMul of ${side(a, transposeA)} and ${side(b, transposeB)}: both must be float32, and the inner sizes ` +
        `(${k} and ${inner}) must be equal. Cast or transpose an operand.`,
    );
  }
  const batch = tf.broadcast_util.assertAndGetBroadcastShape(a.shape.slice(0, -2), b.shape.slice(0, -2));
  return { transposeA, transposeB, m, n, k, batch };
}

function multiplyByBlas(
  context: WasmContext,
  sgemm: Sgemm,
  a: tf.TensorInfo,
  b: tf.TensorInfo,
  product: BroadcastMatmul,
  bias: tf.TensorInfo | null,
): tf.TensorInfo {
  const { transposeA, transposeB, m, n, k, batch } = product;
  const out = context.backend.makeOutput([...batch, m, n], 'float32');
  const numProducts = sizeOf(batch);
  if (numProducts * m * n === 0) return out;
  const offset = offsetOf(context, out);
  const beta = bias === null ? 0 : 1;
  if (bias !== null) context.kernels.fillRows(offset, offsetOf(context, bias), numProducts * m, n);
  const at = (info: tf.TensorInfo): number => context.baseAddress + offsetOf(context, info);
  const [aAt, bAt, outAt] = [at(a), at(b), context.baseAddress + offset];
  const lda = Math.max(1, transposeA ? m : k);
  const ldb = Math.max(1, transposeB ? k : n);
  // All left matrices are multiplied by the same right matrix, so their rows form one tall matrix.
  if (!transposeA && sizeOf(b.shape) === k * n) {
    sgemm(false, transposeB, numProducts * m, n, k, aAt, lda, bAt, ldb, beta, outAt, n);
    return out;
  }
  const aIndex = batchIndex(a.shape.slice(0, -2), batch);
  const bIndex = batchIndex(b.shape.slice(0, -2), batch);
  for (let i = 0; i < numProducts; i++) {
    const aPart = aAt + aIndex(i) * m * k * 4;
    const bPart = bAt + bIndex(i) * k * n * 4;
    sgemm(transposeA, transposeB, m, n, k, aPart, lda, bPart, ldb, beta, outAt + i * m * n * 4, n);
  }
  return out;
}

const ACTIVATIONS: Readonly<Record<string, string>> = {
  relu: 'Relu',
  relu6: 'Relu6',
  elu: 'Elu',
  sigmoid: 'Sigmoid',
  prelu: 'Prelu',
  leakyrelu: 'LeakyRelu',
};

function activate(
  context: WasmContext,
  out: tf.TensorInfo,
  attrs: Readonly<Record<string, unknown>>,
  alpha: tf.TensorInfo | undefined,
): tf.TensorInfo {
  const activation = attrs.activation ?? 'linear';
  if (activation === 'linear') return out;
  const kernel = ACTIVATIONS[String(activation)];
  if (kernel === undefined) {
    throw new ShardlabError(
      'ENGINE',
      `fused.matMul does not have the activation '${activation}'. It has: linear, ${Object.keys(ACTIVATIONS).join(', ')}.`,
    );
  }
  const inputs = kernel === 'Prelu' ? { x: out, alpha: present(alpha) } : { x: out };
  return replaced(context, out, runKernel(kernel, inputs, { alpha: attrs.leakyreluAlpha ?? 0 }));
}

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
function wasmMultiplier(
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
function batchIndex(own: readonly number[], batch: readonly number[]): (position: number) => number {
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
