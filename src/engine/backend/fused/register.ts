import * as tf from '../../../core/tf';
import { offsetOf, present, replaceKernel, runKernel, sizeOf, type WasmContext } from '../wasm-context';
import { registerAveragePool } from './average-pool';
import { registerCausalAttention } from './causal-attention';
import { registerChannels } from './channels';
import { registerConvolutions } from './convolution';
import { registerFlashAttention } from './flash-attention';
import { differentiateBy, FUSED, outputLike, runForFirst, withScratch } from './fused-kernel';
import { registerMaxPool } from './max-pool';

/** The number of rows that layerNorm's gradient adds in float32; several such blocks need totals in float64. */
const ROW_BLOCK = 128;

/** Registers every fused kernel of the engine and its gradient. */
export function registerFusedKernels(context: WasmContext): void {
  registerLinear();
  registerLayerNorm(context);
  registerGelu(context);
  registerCausalSoftmax(context);
  registerCausalAttention(context);
  registerFlashAttention(context);
  registerCrossEntropy(context);
  registerCrossEntropyInPlace(context);
  registerEmbedding(context);
  registerDropout(context);
  registerConvolutions(context);
  registerMaxPool(context);
  registerAveragePool(context);
  registerChannels(context);
}

/**
 * Registers y = x Wᵀ + b: the output is filled with the bias, and one matmul adds to it. Saves x and weight.
 * Shapes: x [rows, in], weight [out, in], bias [out].
 */
function registerLinear(): void {
  replaceKernel(FUSED.linear, () => ({ x, weight, bias }) => {
    const attrs = { transposeA: false, transposeB: true };
    return runKernel('_FusedMatMul', { a: present(x), b: present(weight), bias: present(bias) }, attrs);
  });
  tf.registerGradient({
    kernelName: FUSED.linear,
    inputsToSave: ['x', 'weight'],
    gradFunc: (dy, saved) => {
      const [gradient, x, weight] = [dy as tf.Tensor2D, present(saved[0]), present(saved[1])];
      return {
        x: () => tf.matMul(gradient, weight),
        weight: () => tf.matMul(gradient, x, true, false),
        bias: () => tf.sum(gradient, 0),
      };
    },
  });
}

/** Registers layer norm over the last axis. Saves x, weight, and the mean and 1/deviation of each row. */
function registerLayerNorm(context: WasmContext): void {
  const { kernels, backend } = context;
  const at = offsetsOn(context);
  replaceKernel(FUSED.layerNorm, () => ({ x, weight, bias }, attrs) => {
    const [rows, width] = rowsOf(present(x));
    const y = backend.makeOutput(present(x).shape, 'float32');
    const stats = backend.makeOutput([rows, 2], 'float32');
    kernels.layerNorm(at(x), at(weight), at(bias), at(y), at(stats), rows, width, Number(attrs.eps));
    return [y, stats];
  });
  replaceKernel(FUSED.layerNormGrad, () => ({ x, weight, stats, dy }) => {
    const width = present(weight).shape[0] ?? 1;
    const dWeight = backend.makeOutput([width], 'float32');
    const dBias = backend.makeOutput([width], 'float32');
    const dx = outputLike(context, present(dy));
    const rows = sizeOf(present(x).shape) / width;
    const run = (totals: number): void => {
      const outputs = [dx.offset, at(dWeight), at(dBias)] as const;
      kernels.layerNormGrad(at(x), at(weight), at(stats), at(dy), ...outputs, totals, ROW_BLOCK, rows, width);
    };
    if (rows <= ROW_BLOCK) run(0);
    // 2 * width totals in float64
    else withScratch(context, 4 * width, (totals) => run(offsetOf(context, totals)));
    return [dx.info, dWeight, dBias];
  });
  differentiateBy(FUSED.layerNorm, FUSED.layerNormGrad, ['x', 'weight', 'bias'], {
    inputs: ['x', 'weight'],
    outputs: [null, 'stats'],
  });
}

/**
 * Registers GELU; the attribute `exact` chooses the exact form with the normal distribution function in place of the tanh
 * approximation. Saves x.
 */
function registerGelu(context: WasmContext): void {
  const { kernels, backend } = context;
  const at = offsetsOn(context);
  replaceKernel(FUSED.gelu, () => ({ x }, { exact }) => {
    const y = backend.makeOutput(present(x).shape, 'float32');
    const compute = exact === true ? kernels.geluExact : kernels.gelu;
    compute(at(x), at(y), sizeOf(y.shape));
    return y;
  });
  replaceKernel(FUSED.geluGrad, () => ({ x, dy }, { exact }) => {
    const dx = outputLike(context, present(dy));
    const compute = exact === true ? kernels.geluExactGrad : kernels.geluGrad;
    compute(at(x), at(dy), dx.offset, sizeOf(present(x).shape));
    return dx.info;
  });
  differentiateBy(FUSED.gelu, FUSED.geluGrad, ['x'], { inputs: ['x'] });
}

/**
 * Registers causal softmax of scaled scores: a row's softmax covers the columns up to the row's own position. Saves its output.
 */
function registerCausalSoftmax(context: WasmContext): void {
  const { kernels, backend } = context;
  const at = offsetsOn(context);
  replaceKernel(FUSED.causalSoftmax, () => ({ scores }, attrs) => {
    const { shape } = present(scores);
    const [rows = 1, columns = 1] = shape.slice(-2);
    const p = backend.makeOutput(shape, 'float32');
    kernels.causalSoftmax(at(scores), at(p), sizeOf(shape.slice(0, -2)), rows, columns, Number(attrs.scale));
    return p;
  });
  replaceKernel(FUSED.softmaxGrad, () => ({ p, dp }, attrs) => {
    const [rows, columns] = rowsOf(present(p));
    const out = outputLike(context, present(dp));
    kernels.softmaxGrad(at(p), at(dp), out.offset, rows, columns, Number(attrs.scale));
    return out.info;
  });
  differentiateBy(FUSED.causalSoftmax, FUSED.softmaxGrad, ['scores'], { outputs: ['p'], dy: 'dp' });
}

/**
 * Registers mean cross-entropy. Shapes: logits [rows, classes], labels [rows]. Saves logits, labels and the log-sum-exp of
 * each row; the gradient overwrites the logits if no other tensor uses them.
 */
function registerCrossEntropy(context: WasmContext): void {
  const { kernels, backend } = context;
  const at = offsetsOn(context);
  replaceKernel(FUSED.crossEntropy, () => ({ logits, labels }) => {
    const [rows, classes] = rowsOf(present(logits));
    const norms = backend.makeOutput([rows], 'float32');
    const losses = backend.makeOutput([rows], 'float32');
    kernels.crossEntropy(at(logits), at(labels), at(losses), at(norms), rows, classes);
    return [meanOf(context, losses), norms];
  });
  replaceKernel(FUSED.crossEntropyGrad, () => ({ logits, labels, norms, dy }) => {
    const [rows, classes] = rowsOf(present(logits));
    const out = outputLike(context, present(logits));
    const scale = numberIn(context, present(dy)) / rows;
    kernels.crossEntropyGrad(at(logits), at(labels), at(norms), out.offset, rows, classes, scale);
    return out.info;
  });
  differentiateBy(FUSED.crossEntropy, FUSED.crossEntropyGrad, ['logits'], {
    inputs: ['logits', 'labels'],
    outputs: [null, 'norms'],
  });
}

/** Registers cross-entropy whose forward overwrites the logits with their gradient. */
function registerCrossEntropyInPlace(context: WasmContext): void {
  const { kernels, backend } = context;
  const at = offsetsOn(context);
  replaceKernel(FUSED.crossEntropyInPlace, () => ({ logits, labels }) => {
    const [rows, classes] = rowsOf(present(logits));
    const losses = backend.makeOutput([rows], 'float32');
    kernels.crossEntropyInPlace(at(logits), at(labels), at(losses), rows, classes, 1 / rows);
    return meanOf(context, losses);
  });
  replaceKernel(FUSED.scaledGrad, () => ({ x, dy }) => {
    const size = sizeOf(present(x).shape);
    const scale = numberIn(context, present(dy));
    const out = outputLike(context, present(x));
    if (out.offset !== at(x)) backend.wasm.HEAPU8.copyWithin(out.offset, at(x), at(x) + 4 * size);
    if (scale !== 1) kernels.scale(out.offset, scale, size);
    return out.info;
  });
  tf.registerGradient({
    kernelName: FUSED.crossEntropyInPlace,
    inputsToSave: ['logits'],
    gradFunc: (dy, saved) => ({
      logits: () => runForFirst(FUSED.scaledGrad, { x: present(saved[0]), dy: dy as tf.Tensor }),
    }),
  });
}

/** Registers the embedding. Saves only the indices. If `paddingIndex` is set, the row with this index gets no gradient. */
function registerEmbedding(context: WasmContext): void {
  const { kernels, backend } = context;
  const at = offsetsOn(context);
  replaceKernel(FUSED.embedding, () => ({ table, ids }) => {
    const [rows = 0, width = 0] = present(table).shape;
    const out = backend.makeOutput([...present(ids).shape, width], 'float32');
    kernels.takeRows(at(table), at(ids), at(out), sizeOf(present(ids).shape), rows, width);
    return out;
  });
  replaceKernel(FUSED.embeddingGrad, () => ({ ids, dy }, attrs) => {
    const rows = Number(attrs.rows);
    const width = present(dy).shape.at(-1) ?? 1;
    const out = backend.makeOutput([rows, width], 'float32');
    kernels.fill(at(out), 0, rows * width);
    kernels.addToRows(at(out), at(ids), at(dy), sizeOf(present(ids).shape), rows, width);
    const { paddingIndex } = attrs;
    if (typeof paddingIndex === 'number') kernels.fill(at(out) + 4 * paddingIndex * width, 0, width);
    return out;
  });
  differentiateBy(FUSED.embedding, FUSED.embeddingGrad, ['table'], { inputs: ['ids'] });
}

/** Registers dropout. The operation saves nothing: the gradient drops the same elements of dy, because the seeds are the same. */
function registerDropout(context: WasmContext): void {
  const at = offsetsOn(context);
  replaceKernel(FUSED.dropout, () => ({ x }, { rate, period, seeds }) => {
    const out = outputLike(context, present(x));
    const [seed = 0, otherSeed = 0] = seeds as readonly number[]; // the kernel's check has tested the attributes
    const p = Number(rate);
    const numbers = [sizeOf(present(x).shape), Number(period), seed, otherSeed] as const;
    context.kernels.dropout(at(x), out.offset, ...numbers, (p * 2 ** 32) | 0, p === 1 ? 0 : 1 / (1 - p));
    return out.info;
  });
  tf.registerGradient({
    kernelName: FUSED.dropout,
    inputsToSave: [],
    gradFunc: (dy, _, attrs) => ({
      x: () => runForFirst(FUSED.dropout, { x: dy as tf.Tensor }, attrs as tf.NamedAttrMap),
    }),
  });
}

function offsetsOn(context: WasmContext): (info: tf.TensorInfo | undefined) => number {
  return (info) => offsetOf(context, present(info));
}

/** Returns the number of rows and the length of a row (the last axis). */
function rowsOf({ shape }: tf.TensorInfo): [number, number] {
  const width = shape.at(-1) ?? 1;
  return [sizeOf(shape) / width, width];
}

function numberIn(context: WasmContext, scalar: tf.TensorInfo): number {
  return context.backend.typedArrayFromHeap(scalar)[0] ?? Number.NaN;
}

/** Returns the mean of `losses`, summed in float64, and frees `losses`. */
function meanOf(context: WasmContext, losses: tf.TensorInfo): tf.TensorInfo {
  const values = context.backend.typedArrayFromHeap(losses);
  let sum = 0;
  for (const value of values) sum += value;
  const mean = sum / values.length;
  context.backend.disposeData(losses.dataId);
  const out = context.backend.makeOutput([], 'float32');
  context.backend.typedArrayFromHeap(out)[0] = mean;
  return out;
}
