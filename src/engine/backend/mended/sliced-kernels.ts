import * as tf from '../../../core/tf';
import { type Kernel, offsetOf, present, replaceKernel, sizeOf, type WasmContext } from '../wasm-context';

/**
 * Replaces Slice, SplitV and Unpack: for each part, tfjs copies the whole tensor out of the heap. Here each contiguous run
 * is copied once, within the heap.
 */
export function registerSlices(context: WasmContext): void {
  replaceKernel('Slice', (original) => ({ x }, attrs) => {
    if (present(x).dtype === 'string') return present(original)({ x: present(x) }, attrs);
    const [begin, size] = tf.slice_util.parseSliceParams(
      present(x) as tf.Tensor, // tfjs reads only its shape
      attrs.begin as number[],
      (attrs.size ?? -1) as number[],
    );
    return slice(context, present(x), begin ?? [], size ?? []);
  });
  replaceKernel('SplitV', (original) => split(context, original));
  replaceKernel('Unpack', (original) => unpack(context, original));
}

function split(context: WasmContext, original: Kernel | null): Kernel {
  return ({ x }, attrs) => {
    const input = present(x);
    if (input.dtype === 'string') return present(original)({ x: input }, attrs);
    const axis = tf.util.parseAxisParam(attrs.axis as number, input.shape)[0] ?? 0;
    const parts = attrs.numOrSizeSplits as number[];
    let end = 0;
    return tf.backend_util.prepareSplitSize(input as tf.Tensor, parts, axis).map((length) => {
      end += length;
      return sliceAlong(context, input, axis, end - length, length);
    });
  };
}

function unpack(context: WasmContext, original: Kernel | null): Kernel {
  return ({ value }, attrs) => {
    const input = present(value);
    if (input.dtype === 'string') return present(original)({ value: input }, attrs);
    const axis = tf.util.parseAxisParam(attrs.axis as number, input.shape)[0] ?? 0;
    const shape = input.shape.filter((_, i) => i !== axis);
    return Array.from({ length: input.shape[axis] ?? 0 }, (_, position) => {
      return { ...sliceAlong(context, input, axis, position, 1), shape };
    });
  };
}

/** Returns the elements [start, start + length) along one axis. */
function sliceAlong(
  context: WasmContext,
  input: tf.TensorInfo,
  axis: number,
  start: number,
  length: number,
): tf.TensorInfo {
  const begin = input.shape.map((_, i) => (i === axis ? start : 0));
  const size = input.shape.map((whole, i) => (i === axis ? length : whole));
  return slice(context, input, begin, size);
}

function slice(
  context: WasmContext,
  input: tf.TensorInfo,
  begin: readonly number[],
  size: readonly number[],
): tf.TensorInfo {
  const out = context.backend.makeOutput([...size], input.dtype);
  if (sizeOf(size) === 0 || !context.hasValues) return out;
  const itemBytes = tf.util.bytesPerElement(input.dtype);
  const run = contiguousRun(input.shape, size);
  const runBytes = run.length * itemBytes;
  const strides = [...tf.util.computeStrides([...input.shape]), 1];
  const heap = context.backend.wasm.HEAPU8;
  const from = offsetOf(context, input);
  let to = offsetOf(context, out);
  const copy = (axis: number, element: number): void => {
    const start = element + (begin[axis] ?? 0) * (strides[axis] ?? 1);
    if (axis >= run.axis) {
      const tail = begin.slice(axis + 1).reduce((sum, b, i) => sum + b * (strides[axis + 1 + i] ?? 1), 0);
      const at = from + (start + tail) * itemBytes;
      heap.copyWithin(to, at, at + runBytes);
      to += runBytes;
      return;
    }
    for (let i = 0; i < (size[axis] ?? 0); i++) copy(axis + 1, start + i * (strides[axis] ?? 1));
  };
  copy(0, 0);
  return out;
}

/** Returns the first axis of a contiguous run (the run includes all later axes), and the run's number of elements. */
function contiguousRun(shape: readonly number[], size: readonly number[]): { axis: number; length: number } {
  let axis = Math.max(0, shape.length - 1);
  while (axis > 0 && size[axis] === shape[axis]) axis--;
  return { axis, length: sizeOf(size.slice(axis)) };
}
