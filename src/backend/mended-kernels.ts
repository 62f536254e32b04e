import * as tf from '../core/tf';
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
 * Adds kernels that tfjs's wasm backend lacks, and replaces kernels that are slow or wrong there. In tfjs, identity and casts
 * to the same type copy, and every tensor that a gradient saves is copied; here, aliases take the place of these copies. In
 * tfjs, slices first read the whole tensor, sums over leading axes first transpose, gather copies element by element, and exp,
 * tanh, log, roots and pow call libm. tfjs lacks the gradient of gather, and its oneHot writes integer bits even for floats or
 * booleans.
 */
export function mendKernels(context: WasmContext): void {
  replaceKernel('Identity', (original) => identity(context, original));
  replaceKernel('Cast', (original) => cast(context, original));
  for (const [name, compute] of Object.entries(unaryFunctions(context))) {
    replaceKernel(name, (original) => unary(context, original, compute));
  }
  replaceKernel('Pow', (original) => pow(context, original));
  replaceKernel('GatherV2', (original) => gather(context, original));
  replaceKernel('Sum', (original) => sum(context, original));
  replaceKernel('UnsortedSegmentSum', () => unsortedSegmentSum(context));
  replaceKernel('OneHot', () => oneHot(context));
}

function identity(context: WasmContext, original: Kernel | null): Kernel {
  return ({ x }, attrs) => {
    if (given(x).dtype === 'string') return given(original)({ x: given(x) }, attrs);
    return aliasOf(context, given(x), [...given(x).shape]);
  };
}

/**
 * Returns the kernel Cast: a cast to the same type is an alias, and a cast to bool tests for non-zero (tfjs copies the low
 * byte).
 */
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

type Unary = (x: number, out: number, n: number) => void;

function unaryFunctions({ kernels }: WasmContext): Readonly<Record<string, Unary>> {
  const { exp, tanh, log, sqrt, rsqrt } = kernels;
  return { Exp: exp, Tanh: tanh, Log: log, Sqrt: sqrt, Rsqrt: rsqrt };
}

function unary(context: WasmContext, original: Kernel | null, compute: Unary): Kernel {
  return ({ x }, attrs) => {
    const input = given(x);
    if (input.dtype !== 'float32') return given(original)({ x: input }, attrs);
    const out = context.backend.makeOutput(input.shape, 'float32');
    compute(offsetOf(context, input), offsetOf(context, out), sizeOf(input.shape));
    return out;
  };
}

const MOST_MULTIPLICATIONS = 8;

/** Returns the kernel Pow: powers with small integer exponents are multiplications. */
function pow(context: WasmContext, original: Kernel | null): Kernel {
  return ({ a, b }, attrs) => {
    const [base, exponent] = [given(a), given(b)];
    const value = sizeOf(exponent.shape) === 1 ? Number(context.backend.typedArrayFromHeap(exponent)[0]) : 0;
    const isPlain = base.dtype === 'float32' && exponent.shape.length <= base.shape.length;
    if (!isPlain || !Number.isInteger(value) || value < 1 || value > MOST_MULTIPLICATIONS) {
      return given(original)({ a: base, b: exponent }, attrs);
    }
    const out = context.backend.makeOutput(base.shape, 'float32');
    context.kernels.power(offsetOf(context, base), offsetOf(context, out), sizeOf(base.shape), value);
    return out;
  };
}

/** Returns the kernel GatherV2: it copies whole rows along the first axis; tfjs's kernel handles other cases. */
function gather(context: WasmContext, original: Kernel | null): Kernel {
  return ({ x, indices }, attrs) => {
    const [input, ids] = [given(x), given(indices)];
    const [rows = 0] = input.shape;
    const width = rows === 0 ? 0 : sizeOf(input.shape) / rows;
    const isByRows =
      attrs.axis === 0 && !attrs.batchDims && (input.dtype === 'float32' || input.dtype === 'int32');
    if (!isByRows || ids.dtype !== 'int32' || width === 0) {
      return given(original)({ x: input, indices: ids }, attrs);
    }
    const out = context.backend.makeOutput([...ids.shape, ...input.shape.slice(1)], input.dtype);
    const at = (info: tf.TensorInfo): number => offsetOf(context, info);
    context.kernels.takeRows(at(input), at(ids), at(out), sizeOf(ids.shape), rows, width);
    return out;
  };
}

/** Returns the kernel Sum: sums over leading axes add up rows; tfjs's kernel handles other sums. */
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

/** Returns the kernel OneHot: out[i, indices[i]] = onValue; other elements are offValue. */
function oneHot(context: WasmContext): Kernel {
  return ({ indices }, { depth, onValue, offValue, dtype }) => {
    const classes = Number(depth);
    const shape = [...given(indices).shape, classes];
    const out = context.backend.makeOutput(shape, (dtype ?? 'int32') as tf.DataType);
    if (!context.hasValues) return out;
    const hot = context.backend.typedArrayFromHeap(out).fill(Number(offValue));
    const at = context.backend.typedArrayFromHeap(given(indices));
    for (let i = 0; i < at.length; i++) hot[i * classes + (at[i] ?? 0)] = Number(onValue);
    return out;
  };
}

/** Returns the kernel UnsortedSegmentSum: out[s] = sum of all x[i] with segmentIds[i] = s. */
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

/**
 * Replaces gradients of tfjs. For sums and means, tfjs multiplies by an array of ones, as large as the input, which JavaScript
 * makes outside of the engine; for a mean, tfjs then divides every element. Here a kernel makes the ones, and for a mean only
 * the gradient of the result is divided. Gradients are bitwise equal to tfjs's. tfjs's gradients of unstack and split fail if
 * there is one part.
 */
export function mendGradients(): void {
  tf.registerGradient({
    kernelName: 'Sum',
    inputsToSave: ['x'],
    gradFunc: (dy, [x], { axis }) => ({ x: () => repeatAlong(dy as tf.Tensor, given(x), axis as number[]) }),
  });
  tf.registerGradient({
    kernelName: 'Mean',
    inputsToSave: ['x'],
    gradFunc: (dy, [x], { axis }) => ({
      x: () => {
        const [from, to] = [dy as tf.Tensor, given(x)]; // the kernel has one output
        return repeatAlong(tf.div(from, to.size / Math.max(1, from.size)), to, axis as number[]);
      },
    }),
  });
  for (const kernelName of TO_LISTS) acceptOnePart(kernelName);
}

/** The kernels with a list of outputs that have a gradient. */
const TO_LISTS = ['Unpack', 'SplitV'] as const;

/** tfjs passes the gradient of a single output as a tensor, but the gradients of these kernels read a list. */
function acceptOnePart(kernelName: (typeof TO_LISTS)[number]): void {
  const { gradFunc, ...config } = given(tf.getGradient(kernelName));
  tf.unregisterGradient(kernelName);
  tf.registerGradient({
    ...config,
    gradFunc: (dy, saved, attrs) => gradFunc(Array.isArray(dy) ? dy : [dy], saved, attrs),
  });
}

/** Repeats `dy` along the reduced axes, to the shape of `x`; the values of `x` are not used. */
function repeatAlong(dy: tf.Tensor, x: tf.Tensor, axis: number | number[]): tf.Tensor {
  const axes = tf.util.parseAxisParam(axis, x.shape);
  const kept = x.shape.map((length, index) => (axes.includes(index) ? 1 : length));
  return tf.mul(tf.reshape(dy, kept), tf.fill(x.shape, 1));
}
