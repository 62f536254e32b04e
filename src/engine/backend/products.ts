import { ShardlabError } from '../../core';
import * as tf from '../../core/tf';
import type { Sgemm } from './blas';
import { type BroadcastMatmul, batchIndex, wasmMultiplier } from './products-wasm';
import {
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
