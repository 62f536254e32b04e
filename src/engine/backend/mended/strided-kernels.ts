import * as tf from '../../../core/tf';
import {
  type Attributes,
  type Kernel,
  present,
  replaceKernel,
  sizeOf,
  type WasmContext,
} from '../wasm-context';

/** The kernels of the gradients of StridedSlice and TopK. */
export const STRIDED_SLICE_GRAD = 'ShardlabStridedSliceGrad';
export const TOP_K_GRAD = 'ShardlabTopKGrad';

/**
 * Replaces kernels of tfjs that take only float32 (stridedSlice), round an int32 (the value of a pad) or drop NaN (topk), and adds
 * the gradients that tfjs lacks.
 */
export function registerStrided(context: WasmContext): void {
  const { backend } = context;
  replaceKernel('StridedSlice', () => ({ x }, attrs) => {
    const info = sliceOf(present(x).shape, attrs);
    const out = backend.makeOutput(info.finalShape, present(x).dtype);
    if (!context.hasValues) return out;
    const [from, to] = [backend.typedArrayFromHeap(present(x)), backend.typedArrayFromHeap(out)];
    forEachElement(info, present(x).shape, (place, i) => {
      to[i] = from[place] as number;
    });
    return out;
  });
  replaceKernel(STRIDED_SLICE_GRAD, () => ({ dy }, attrs) => {
    const shape = attrs.inputShape as number[]; // from mended-gradients.ts
    const dx = backend.makeOutput(shape, 'float32');
    if (!context.hasValues) return dx;
    const [from, to] = [backend.typedArrayFromHeap(present(dy)), backend.typedArrayFromHeap(dx).fill(0)];
    forEachElement(sliceOf(shape, attrs), shape, (place, i) => {
      to[place] = from[i] as number;
    });
    return dx;
  });
  replaceKernel('TopK', () => topK(context));
  replaceKernel(TOP_K_GRAD, () => ({ dy, indices }, attrs) => {
    const shape = attrs.inputShape as number[]; // from mended-gradients.ts
    const dx = backend.makeOutput(shape, 'float32');
    if (!context.hasValues) return dx;
    const [from, places] = [
      backend.typedArrayFromHeap(present(dy)),
      backend.typedArrayFromHeap(present(indices)),
    ];
    const to = backend.typedArrayFromHeap(dx).fill(0);
    const [columns, k] = [shape.at(-1) ?? 1, present(dy).shape.at(-1) ?? 1];
    for (let i = 0; i < from.length; i++)
      to[Math.floor(i / k) * columns + (places[i] as number)] = from[i] as number;
    return dx;
  });
  replaceKernel('PadV2', (original) => pad(context, original));
}

type SliceInfo = ReturnType<typeof tf.slice_util.sliceInfo>;

function sliceOf(shape: readonly number[], attrs: Attributes): SliceInfo {
  const { begin, end, strides } = attrs;
  const mask = (name: string): number => Number(attrs[name] ?? 0);
  return tf.slice_util.sliceInfo(
    [...shape],
    begin as number[], // the kernel's check has validated these attributes
    end as number[],
    strides as number[],
    mask('beginMask'),
    mask('endMask'),
    mask('ellipsisMask'),
    mask('newAxisMask'),
    mask('shrinkAxisMask'),
  );
}

/** Calls `visit` for each element of a slice, with its index in x and in the slice. */
function forEachElement(
  { finalShapeSparse, begin, strides }: SliceInfo,
  shape: readonly number[],
  visit: (place: number, i: number) => void,
): void {
  const steps = tf.util.computeStrides([...shape]).concat(shape.length > 0 ? [1] : []);
  const counts = shape.map((_, axis) => finalShapeSparse[axis] ?? 1);
  const total = sizeOf(counts);
  for (let i = 0; i < total; i++) {
    let [rest, place] = [i, 0];
    for (let axis = shape.length - 1; axis >= 0; axis--) {
      const count = counts[axis] ?? 1;
      const index = rest % count;
      rest = (rest - index) / count;
      place += ((begin[axis] ?? 0) + index * (strides[axis] ?? 1)) * (steps[axis] ?? 1);
    }
    visit(place, i);
  }
}

/** Returns the kernel TopK: NaN is the largest, and of equal elements the first comes first. */
function topK({ backend, hasValues }: WasmContext): Kernel {
  return ({ x }, attrs) => {
    const { shape, dtype } = present(x);
    const [k, columns] = [Number(attrs.k), shape.at(-1) ?? 1];
    const values = backend.makeOutput([...shape.slice(0, -1), k], dtype);
    const indices = backend.makeOutput([...shape.slice(0, -1), k], 'int32');
    if (!hasValues || k === 0) return [values, indices];
    const from = backend.typedArrayFromHeap(present(x));
    const [tops, places] = [backend.typedArrayFromHeap(values), backend.typedArrayFromHeap(indices)];
    const rank = (value: number): number => (Number.isNaN(value) ? 1 : 0);
    for (let row = 0; row < sizeOf(shape.slice(0, -1)); row++) {
      const own = from.subarray(row * columns, (row + 1) * columns);
      const order = Int32Array.from(own, (_, i) => i).sort((i, j) => {
        const [a, b] = [own[i] as number, own[j] as number];
        return rank(b) - rank(a) || (a === b || rank(a) === 1 ? i - j : a > b ? -1 : 1);
      });
      for (let i = 0; i < k; i++) {
        places[row * k + i] = order[i] as number;
        tops[row * k + i] = own[order[i] as number] as number;
      }
    }
    return [values, indices];
  };
}

/** Returns the kernel PadV2 of numbers that are not float32, whose constant tfjs rounds to float32. */
function pad({ backend, hasValues }: WasmContext, original: Kernel | null): Kernel {
  return ({ x }, attrs) => {
    const input = present(x);
    if (input.dtype === 'float32' || input.dtype === 'string') return present(original)({ x: input }, attrs);
    const paddings = attrs.paddings as [number, number][]; // the kernel's check has validated it
    const shape = input.shape.map(
      (length, axis) => length + (paddings[axis]?.[0] ?? 0) + (paddings[axis]?.[1] ?? 0),
    );
    const out = backend.makeOutput(shape, input.dtype);
    if (!hasValues) return out;
    const [from, to] = [backend.typedArrayFromHeap(input), backend.typedArrayFromHeap(out)];
    to.fill(Number(attrs.constantValue));
    const steps = [...tf.util.computeStrides(shape), 1];
    for (let i = 0; i < from.length; i++) {
      let [rest, place] = [i, 0];
      for (let axis = shape.length - 1; axis >= 0; axis--) {
        const length = input.shape[axis] ?? 1;
        const index = rest % length;
        rest = (rest - index) / length;
        place += (index + (paddings[axis]?.[0] ?? 0)) * (steps[axis] ?? 1);
      }
      to[place] = from[i] as number;
    }
    return out;
  };
}
