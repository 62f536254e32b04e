import type * as tf from '../../../core/tf';
import { backend_util } from '../../../core/tf';
import {
  aliasOf,
  type Kernel,
  offsetOf,
  present,
  replaceKernel,
  sizeOf,
  type WasmContext,
} from '../wasm-context';

/**
 * Adds kernels that tfjs's wasm backend lacks, and replaces kernels that are slow or wrong there. In tfjs, identity and casts
 * to the same type copy, and every tensor that a gradient saves is copied; here, aliases take the place of these copies. In
 * tfjs, slices first read the whole tensor, gather copies element by element, and exp, tanh, log, roots and pow call libm. tfjs lacks the gradient of gather, and its oneHot writes integer bits even for floats or
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
  replaceKernel('UnsortedSegmentSum', () => unsortedSegmentSum(context));
  replaceKernel('OneHot', () => oneHot(context));
}

function identity(context: WasmContext, original: Kernel | null): Kernel {
  return ({ x }, attrs) => {
    if (present(x).dtype === 'string') return present(original)({ x: present(x) }, attrs);
    return aliasOf(context, present(x), [...present(x).shape]);
  };
}

/**
 * Returns the kernel Cast: a cast to the same type is an alias, and a cast to bool tests for non-zero (tfjs copies the low
 * byte).
 */
function cast(context: WasmContext, original: Kernel | null): Kernel {
  return ({ x }, attrs) => {
    const input = present(x);
    if (attrs.dtype === input.dtype) return aliasOf(context, input, [...input.shape]);
    if (attrs.dtype !== 'bool' || input.dtype === 'string') return present(original)({ x: input }, attrs);
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
    const input = present(x);
    if (input.dtype !== 'float32') return present(original)({ x: input }, attrs);
    const out = context.backend.makeOutput(input.shape, 'float32');
    compute(offsetOf(context, input), offsetOf(context, out), sizeOf(input.shape));
    return out;
  };
}

const MOST_MULTIPLICATIONS = 8;

/** Returns the kernel Pow: powers with small integer exponents are multiplications. */
function pow(context: WasmContext, original: Kernel | null): Kernel {
  return ({ a, b }, attrs) => {
    const [base, exponent] = [present(a), present(b)];
    const value = sizeOf(exponent.shape) === 1 ? Number(context.backend.typedArrayFromHeap(exponent)[0]) : 0;
    const isPlain = base.dtype === 'float32' && exponent.shape.length <= base.shape.length;
    if (!isPlain || !Number.isInteger(value) || value < 1 || value > MOST_MULTIPLICATIONS) {
      return present(original)({ a: base, b: exponent }, attrs);
    }
    const out = context.backend.makeOutput(base.shape, 'float32');
    context.kernels.power(offsetOf(context, base), offsetOf(context, out), sizeOf(base.shape), value);
    return out;
  };
}

/**
 * Returns the kernel GatherV2: it copies whole rows along the first axis, and with batchDims rows of each batch, for which tfjs's
 * kernel reads outside of the heap; tfjs's kernel handles other cases.
 */
function gather(context: WasmContext, original: Kernel | null): Kernel {
  return ({ x, indices }, attrs) => {
    const [input, ids] = [present(x), present(indices)];
    if (attrs.batchDims && ids.dtype === 'int32') return gatherInBatches(context, input, ids, attrs);
    const [rows = 0] = input.shape;
    const width = rows === 0 ? 0 : sizeOf(input.shape) / rows;
    const isByRows =
      attrs.axis === 0 && !attrs.batchDims && (input.dtype === 'float32' || input.dtype === 'int32');
    if (!isByRows || ids.dtype !== 'int32') {
      return present(original)({ x: input, indices: ids }, attrs);
    }
    const out = context.backend.makeOutput([...ids.shape, ...input.shape.slice(1)], input.dtype);
    const at = (info: tf.TensorInfo): number => offsetOf(context, info);
    context.kernels.takeRows(at(input), at(ids), at(out), sizeOf(ids.shape), rows, width);
    return out;
  };
}

/** Returns out[b, o, i, :] = x[b, o, indices[b, i], :], where b are the dims that x and the indices have in common. */
function gatherInBatches(
  context: WasmContext,
  input: tf.TensorInfo,
  ids: tf.TensorInfo,
  attrs: Parameters<Kernel>[1],
): tf.TensorInfo {
  const axis = Number(attrs.axis) < 0 ? Number(attrs.axis) + input.shape.length : Number(attrs.axis);
  // tfjs's function reads only the shapes.
  const { batchSize, outerSize, dimSize, sliceSize, outputShape } =
    backend_util.segment_util.collectGatherOpShapeInfo(
      input as tf.Tensor,
      ids as tf.Tensor,
      axis,
      Number(attrs.batchDims),
    );
  const out = context.backend.makeOutput(outputShape, input.dtype);
  if (!context.hasValues || sizeOf(outputShape) === 0) return out;
  const [to, from, at] = [out, input, ids].map((info) => context.backend.typedArrayFromHeap(info)) as [
    Float32Array,
    Float32Array,
    Int32Array,
  ]; // values are only copied, and indices are int32
  const perBatch = at.length / batchSize;
  for (let b = 0, next = 0; b < batchSize; b++) {
    for (let o = 0; o < outerSize; o++) {
      const first = (b * outerSize + o) * dimSize;
      for (let i = 0; i < perBatch; i++, next += sliceSize) {
        const row = (first + (at[b * perBatch + i] ?? 0)) * sliceSize;
        to.set(from.subarray(row, row + sliceSize), next);
      }
    }
  }
  return out;
}

/** Returns the kernel OneHot: out[i, indices[i]] = onValue; other elements are offValue. */
function oneHot(context: WasmContext): Kernel {
  return ({ indices }, { depth, onValue, offValue, dtype }) => {
    const classes = Number(depth);
    const shape = [...present(indices).shape, classes];
    const out = context.backend.makeOutput(shape, (dtype ?? 'int32') as tf.DataType);
    if (!context.hasValues) return out;
    const hot = context.backend.typedArrayFromHeap(out).fill(Number(offValue));
    const at = context.backend.typedArrayFromHeap(present(indices));
    for (let i = 0; i < at.length; i++) hot[i * classes + (at[i] ?? 0)] = Number(onValue);
    return out;
  };
}

/** Returns the kernel UnsortedSegmentSum: out[s] = sum of all x[i] with segmentIds[i] = s. */
function unsortedSegmentSum(context: WasmContext): Kernel {
  return ({ x, segmentIds }, attrs) => {
    const input = present(x);
    const numSegments = Number(attrs.numSegments);
    const numIds = sizeOf(present(segmentIds).shape);
    const width = numIds === 0 ? 0 : sizeOf(input.shape) / numIds;
    const inner = input.shape.slice(present(segmentIds).shape.length);
    const out = context.backend.makeOutput([numSegments, ...inner], input.dtype);
    const at = offsetOf(context, out);
    context.kernels.fill(at, 0, sizeOf(out.shape));
    const ids = offsetOf(context, present(segmentIds));
    context.kernels.addToRows(at, ids, offsetOf(context, input), numIds, numSegments, width);
    return out;
  };
}
