import * as tf from '../../../core/tf';
import {
  type Attributes,
  type Inputs,
  type Kernel,
  offsetOf,
  present,
  replaceKernel,
  runKernel,
  sizeOf,
  type WasmContext,
} from '../wasm-context';

/*
 * [Note: reductions] tfjs's reductions add in one float32, return unwritten memory if nothing is reduced, and compute int32 in
 * float32. These kernels add in blocks, give the neutral element of nothing (a mean of nothing is NaN; an extreme of nothing is
 * refused), keep int32, and carry every NaN, as torch does. Axes that are neighbours are reduced where they are; other axes are
 * first moved to the end.
 */

/** An input seen as [outer, length, inner], of which `length` is reduced. */
interface Layout {
  readonly outer: number;
  readonly length: number;
  readonly inner: number;
}

/** Computes the reduction of x into out; both are views of the heap in the order of `layout`. */
type Compute = (x: tf.TensorInfo, out: tf.TensorInfo, layout: Layout) => void;

/** Replaces tfjs's reductions. See [Note: reductions]. */
export function registerReductions(context: WasmContext): void {
  const { kernels } = context;
  const at = (info: tf.TensorInfo): number => offsetOf(context, info);
  const sums =
    (isMean: boolean): Compute =>
    (x, out, { outer, length, inner }) =>
      kernels.sums(at(x), at(out), outer, length, inner, isMean ? length : 1);
  const extremes =
    (isMax: boolean): Compute =>
    (x, out, { outer, length, inner }) =>
      (isMax ? kernels.maxima : kernels.minima)(at(x), at(out), outer, length, inner);
  const add = folded(context, 0, (a, b) => (a + b) | 0);
  const largest = folded(context, INT32.min, Math.max);
  const smallest = folded(context, INT32.max, Math.min);
  const product = folded(context, 1, (a, b) => a * b);
  const bitsOf = { all: folded(context, 1, (a, b) => a & b), any: folded(context, 0, (a, b) => a | b) };
  const reductions: Readonly<Record<string, { readonly float: Compute; readonly integer: Compute }>> = {
    Sum: { float: sums(false), integer: add },
    Mean: { float: sums(true), integer: add },
    Max: { float: extremes(true), integer: largest },
    Min: { float: extremes(false), integer: smallest },
    Prod: { float: product, integer: folded(context, 1, Math.imul) },
    All: { float: bitsOf.all, integer: bitsOf.all },
    Any: { float: bitsOf.any, integer: bitsOf.any },
  };
  for (const [name, { float, integer }] of Object.entries(reductions)) {
    replaceKernel(name, () => ({ x }, attrs) => {
      const input = name === 'Mean' ? asFloat(present(x)) : present(x);
      const out = reduced(context, input, attrs, input.dtype, input.dtype === 'float32' ? float : integer);
      if (input !== x) context.backend.disposeData(input.dataId);
      return out;
    });
  }
  replaceKernel('ArgMax', () => argument(context, (a, b) => a > b));
  replaceKernel('ArgMin', () => argument(context, (a, b) => a < b));
  replaceKernel('Softmax', (original) => softmax(context, original));
}

const INT32 = { min: -(2 ** 31), max: 2 ** 31 - 1 } as const;

function asFloat(x: tf.TensorInfo): tf.TensorInfo {
  return x.dtype === 'float32' ? x : runKernel('Cast', { x }, { dtype: 'float32' });
}

function reduced(
  context: WasmContext,
  x: tf.TensorInfo,
  { axis, reductionIndices, keepDims }: Attributes,
  dtype: tf.DataType,
  compute: Compute,
): tf.TensorInfo {
  // tfjs's max and min use the name reductionIndices.
  const axes = tf.util.parseAxisParam((axis ?? reductionIndices) as number | number[], x.shape);
  const kept = x.shape.filter((_, i) => !axes.includes(i));
  const shape = keepDims === true ? tf.backend_util.expandShapeToKeepDim(kept, axes) : kept;
  const near = layoutOf(x.shape, axes);
  const moved = near === null ? movedToEnd(x, axes) : x;
  const out = context.backend.makeOutput(shape, dtype);
  const length = sizeOf(axes.map((i) => x.shape[i] ?? 1));
  if (context.hasValues && sizeOf(shape) > 0)
    compute(moved, out, near ?? { outer: sizeOf(kept), length, inner: 1 });
  if (moved !== x) context.backend.disposeData(moved.dataId);
  return out;
}

/** Returns the layout of an input whose reduced axes are neighbours, apart from axes of length 1; else null. */
function layoutOf(shape: readonly number[], axes: readonly number[]): Layout | null {
  const wide = shape.flatMap((length, i) => (length === 1 ? [] : [i]));
  const places = wide.flatMap((i, place) => (axes.includes(i) ? [place] : []));
  const [first = wide.length] = places;
  if (places.some((place, i) => place !== first + i)) return null;
  const sizeOfAxes = (some: readonly number[]): number => sizeOf(some.map((i) => shape[i] ?? 1));
  return {
    outer: sizeOfAxes(wide.slice(0, first)),
    length: sizeOfAxes(wide.slice(first, first + places.length)),
    inner: sizeOfAxes(wide.slice(first + places.length)),
  };
}

function movedToEnd(x: tf.TensorInfo, axes: readonly number[]): tf.TensorInfo {
  const places = x.shape.map((_, i) => i);
  const perm = [...places.filter((i) => !axes.includes(i)), ...axes];
  return runKernel('Transpose', { x }, { perm });
}

/** Returns a reduction that combines one element after the other. */
function folded(
  { backend }: WasmContext,
  neutral: number,
  combine: (a: number, b: number) => number,
): Compute {
  return (x, out, { outer, length, inner }) => {
    const from = backend.typedArrayFromHeap(x);
    const to = backend.typedArrayFromHeap(out);
    for (let i = 0; i < outer; i++) {
      for (let j = 0; j < inner; j++) {
        let value = neutral;
        for (let k = 0; k < length; k++) value = combine(value, from[(i * length + k) * inner + j] as number);
        to[i * inner + j] = value;
      }
    }
  };
}

/** Returns the kernel ArgMax or ArgMin: the place of the first best element; a NaN is better than every number, as in torch. */
function argument(context: WasmContext, isBetter: (a: number, b: number) => boolean): Kernel {
  return ({ x }, attrs) =>
    reduced(context, present(x), attrs, 'int32', (input, out, { outer, length, inner }) => {
      const from = context.backend.typedArrayFromHeap(input);
      const to = context.backend.typedArrayFromHeap(out);
      for (let i = 0; i < outer; i++) {
        for (let j = 0; j < inner; j++) {
          let best = 0;
          let value = from[i * length * inner + j] as number;
          for (let k = 1; k < length && !Number.isNaN(value); k++) {
            const next = from[(i * length + k) * inner + j] as number;
            if (!isBetter(next, value) && !Number.isNaN(next)) continue;
            best = k;
            value = next;
          }
          to[i * inner + j] = best;
        }
      }
    });
}

/** Up to this length, tfjs's softmax, which adds in float32, is as exact as one that adds in blocks; and it is faster. */
const SHORT_ROW = 4096;

/** Returns the kernel Softmax, along the last axis. */
function softmax(context: WasmContext, original: Kernel | null): Kernel {
  return ({ logits }: Inputs, attrs) => {
    const input = present(logits);
    const isShort = (input.shape.at(-1) ?? 1) <= SHORT_ROW && sizeOf(input.shape) > 0;
    if (isShort && original !== null) return original({ logits: input }, attrs);
    const out = context.backend.makeOutput(input.shape, 'float32');
    const columns = input.shape.at(-1) ?? 1;
    const rows = columns === 0 ? 0 : sizeOf(input.shape) / columns;
    context.kernels.softmax(offsetOf(context, input), offsetOf(context, out), rows, columns);
    return out;
  };
}
