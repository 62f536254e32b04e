import * as tf from '@tensorflow/tfjs';
import {
  aliasOf,
  given,
  type Kernel,
  offsetOf,
  replaceKernel,
  sizeOf,
  type WasmContext,
} from './wasm-context';

/**
 * Registers anew what tfjs's wasm backend lacks or does slowly. Identity and casts to the same type copy there, and so
 * does every tensor that a gradient saves: here they are aliases. Slices read the whole tensor first; sums over leading
 * axes transpose first; exp calls libm; the gradient of gather is missing.
 */
export function mendKernels(context: WasmContext): void {
  replaceKernel('Identity', (original) => identity(context, original));
  replaceKernel('Cast', (original) => cast(context, original));
  replaceKernel('Exp', (original) => exp(context, original));
  replaceKernel('Sum', (original) => sum(context, original));
  replaceKernel('UnsortedSegmentSum', () => unsortedSegmentSum(context));
}

function identity(context: WasmContext, original: Kernel | null): Kernel {
  return ({ x }, attrs) => {
    if (given(x).dtype === 'string') return given(original)({ x: given(x) }, attrs);
    return aliasOf(context, given(x), [...given(x).shape]);
  };
}

/** To the same type an alias; to bool what is not zero (tfjs keeps the low byte). */
function cast(context: WasmContext, original: Kernel | null): Kernel {
  return ({ x }, attrs) => {
    const input = given(x);
    if (attrs.dtype === input.dtype) return aliasOf(context, input, [...input.shape]);
    if (attrs.dtype !== 'bool' || input.dtype === 'string') return given(original)({ x: input }, attrs);
    const out = context.backend.makeOutput(input.shape, 'bool');
    const values = context.backend.typedArrayFromHeap(input);
    context.backend.typedArrayFromHeap(out).set(Uint8Array.from(values, (value) => Number(value !== 0)));
    return out;
  };
}

function exp(context: WasmContext, original: Kernel | null): Kernel {
  return ({ x }, attrs) => {
    const input = given(x);
    if (input.dtype !== 'float32') return given(original)({ x: input }, attrs);
    const out = context.backend.makeOutput(input.shape, 'float32');
    context.kernels.exp(offsetOf(context, input), offsetOf(context, out), sizeOf(input.shape));
    return out;
  };
}

/** Sums over leading axes go by rows; others are left to tfjs. */
function sum(context: WasmContext, original: Kernel | null): Kernel {
  return ({ x }, attrs) => {
    const input = given(x);
    const axes = tf.util.parseAxisParam(attrs.axis as number | number[], input.shape);
    const isLeading =
      axes.length < input.shape.length && axes.every((axis, i) => axis === i) && axes.length > 0;
    if (input.dtype !== 'float32' || !isLeading) return given(original)({ x: input }, attrs);
    const kept = input.shape.slice(axes.length);
    const rows = sizeOf(input.shape.slice(0, axes.length));
    const shape = attrs.keepDims === true ? [...axes.map(() => 1), ...kept] : kept;
    const out = context.backend.makeOutput(shape, 'float32');
    context.kernels.columnSums(offsetOf(context, input), offsetOf(context, out), rows, sizeOf(kept));
    return out;
  };
}

/** out[s] = sum of x[i] where segmentIds[i] = s; negative ids are dropped. */
function unsortedSegmentSum(context: WasmContext): Kernel {
  return ({ x, segmentIds }, attrs) => {
    const input = given(x);
    const numSegments = Number(attrs.numSegments);
    const numIds = sizeOf(given(segmentIds).shape);
    const width = numIds === 0 ? 0 : sizeOf(input.shape) / numIds;
    const inner = input.shape.slice(given(segmentIds).shape.length);
    const out = context.backend.makeOutput([numSegments, ...inner], input.dtype);
    const at = offsetOf(context, out);
    context.kernels.fill(at, 0, sizeOf(out.shape));
    const ids = offsetOf(context, given(segmentIds));
    context.kernels.addToRows(at, ids, offsetOf(context, input), numIds, numSegments, width);
    return out;
  };
}
