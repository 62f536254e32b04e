import * as tf from '../../../core/tf';
import { sizeOf } from '../wasm-context';
import { type CheckedCall, computed, type KernelCheck, typeAndShape } from './checked-call';
import { shapeOf } from './index-checks';

/** Checks of kernels that copy parts of a tensor, join tensors, or reorder elements. */
export const SHAPE_CHECKS: Readonly<Record<string, KernelCheck>> = {
  Slice: (call) => {
    const x = call.input('x');
    const { begin, size } = call.attrs;
    const parsed = computed(call, () =>
      // tfjs's function reads only the shape of x.
      tf.slice_util.parseSliceParams(x as tf.Tensor, begin as number[], size as number[]),
    );
    const [begins = [], sizes = []] = parsed;
    if (begins.length !== x.shape.length || sizes.length !== x.shape.length)
      call.refuse(
        `begin [${begins}] and size [${sizes}] must have a number for each axis of x ${typeAndShape(x)}.`,
      );
    x.shape.forEach((length, axis) => {
      const start = call.whole(`begin[${axis}]`, begins[axis], 0);
      const count = call.whole(`size[${axis}]`, sizes[axis], 0);
      if (start + count > length)
        call.refuse(
          `${count} elements from ${start} along axis ${axis} end outside of x ${typeAndShape(x)}.`,
        );
    });
  },
  StridedSlice: (call) => void strided(call, call.input('x').shape),
  ShardlabStridedSliceGrad: (call) => {
    const inputShape = call.wholes('inputShape', call.attrs.inputShape, undefined, 0);
    call.sameShape('dy', strided(call, inputShape));
  },
  ShardlabTopKGrad: (call) => {
    const { shape } = call.input('dy');
    const inputShape = call.wholes('inputShape', call.attrs.inputShape, shape.length, 0);
    if (inputShape.slice(0, -1).join() !== shape.slice(0, -1).join())
      call.refuse(`dy ${typeAndShape(call.input('dy'))} does not have the rows of [${inputShape}].`);
    call.sameShape('indices', shape);
    call.indices('indices', inputShape.at(-1) ?? 1, 'a row');
  },
  SplitV: (call) => {
    const x = call.input('x');
    const axis = call.axis('axis', call.attrs.axis ?? 0, x.shape.length);
    const length = x.shape[axis] ?? 0;
    const { numOrSizeSplits: parts } = call.attrs;
    if (!Array.isArray(parts)) {
      if (length % call.whole('numOrSizeSplits', parts, 1) !== 0)
        call.refuse(`axis ${axis} of x ${typeAndShape(x)} is not divisible into ${parts} equal parts.`);
      return;
    }
    const sizes = call.wholes('numOrSizeSplits', parts, undefined, -1);
    const open = sizes.filter((size) => size === -1).length;
    const sum = sizes.reduce((total, size) => total + Math.max(0, size), 0);
    if (open > 1 || sum > length || (open === 0 && sum !== length))
      call.refuse(`sizes [${sizes}] do not add up to the length of axis ${axis} of x ${typeAndShape(x)}.`);
  },
  Unpack: (call) => void call.axis('axis', call.attrs.axis ?? 0, call.input('value').shape.length),
  Concat: (call) => {
    const [first, ...others] = call.presentInputs;
    if (first === undefined) return call.refuse('it needs at least one tensor.');
    const axis = call.axis('axis', call.attrs.axis ?? 0, first.shape.length);
    for (const { dtype, shape } of others) {
      const same =
        shape.length === first.shape.length && shape.every((n, i) => i === axis || n === first.shape[i]);
      if (!same || (dtype === 'string') !== (first.dtype === 'string'))
        call.refuse(`${dtype} [${shape}] cannot be joined to ${typeAndShape(first)} along axis ${axis}.`);
    }
  },
  Pack: (call) => {
    const [first] = call.presentInputs;
    if (first === undefined) return call.refuse('it needs at least one tensor.');
    call.axis('axis', call.attrs.axis ?? 0, first.shape.length + 1);
    call.alike();
  },
  Reshape: (call) => {
    const x = call.input('x');
    const shape = call.wholes('shape', call.attrs.shape, undefined, -1);
    const size = computed(call, () => sizeOf(tf.util.inferFromImplicitShape(shape, sizeOf(x.shape))));
    if (size !== sizeOf(x.shape))
      call.refuse(`x ${typeAndShape(x)} does not have the ${size} elements of [${shape}].`);
  },
  ExpandDims: (call) => {
    const { length } = call.input('input').shape;
    call.whole('dim', call.attrs.dim, -length - 1, length);
  },
  Transpose: (call) => {
    const { length } = call.input('x').shape;
    call.wholes('perm', call.attrs.perm, length, 0, length - 1);
    call.axes('perm', call.attrs.perm, length);
  },
  Reverse: (call) => call.axes('dims', call.attrs.dims, call.input('x').shape.length),
  Tile: (call) => void call.wholes('reps', call.attrs.reps, call.input('x').shape.length, 0),
  PadV2: (call) => void paddings(call),
  MirrorPad: (call) => {
    const { shape } = call.input('x');
    const most = call.attrs.mode === 'reflect' ? 1 : 0;
    paddings(call).forEach((pair, axis) => {
      const limit = Math.max(0, (shape[axis] ?? 0) - most);
      for (const amount of pair) call.whole(`paddings[${axis}]`, amount, 0, limit);
    });
  },
  Fill: (call) => void shapeOf(call, 'shape'),
  Range: (call) => {
    for (const name of ['start', 'stop', 'step']) call.finite(name, call.attrs[name]);
  },
  LinSpace: (call) => {
    for (const name of ['start', 'stop']) call.finite(name, call.attrs[name]);
    call.whole('num', call.attrs.num, 1);
  },
  TopK: (call) => {
    const { shape } = call.input('x');
    call.whole('k', call.attrs.k, 0, shape.at(-1) ?? 0);
  },
  Unique: (call) => void call.axis('axis', call.attrs.axis ?? 0, call.input('x').shape.length),
  Cumsum: fromStart,
  Cumprod: fromStart,
  ShardlabCumprodGrad: (call) => {
    fromStart(call);
    call.sameShape('dy', call.input('x').shape);
  },
  ArgMax: placed,
  ArgMin: placed,
  ...Object.fromEntries(['All', 'Any', 'Max', 'Mean', 'Min', 'Prod', 'Sum'].map((name) => [name, reduced])),
  Softmax: (call) => {
    const { length } = call.input('logits').shape;
    call.whole('dim', call.attrs.dim ?? length - 1, length - 1, length - 1);
  },
  Select: (call) => {
    const t = call.input('t');
    const condition = call.input('condition');
    call.sameShape('e', t.shape);
    call.typed(t.dtype, 'e');
    call.typed('bool', 'condition');
    const byRows = condition.shape.length === 1 && condition.shape[0] === t.shape[0];
    if (!byRows) call.sameShape('condition', t.shape);
  },
  BatchToSpaceND: (call) => {
    const x = call.input('x');
    const block = call.wholes('blockShape', call.attrs.blockShape, undefined, 1);
    if (block.length >= x.shape.length || (x.shape[0] ?? 0) % sizeOf(block) !== 0)
      call.refuse(`x ${typeAndShape(x)} is not divisible into blocks of [${block}].`);
    pairs(call, 'crops', block.length).forEach((pair, i) => {
      const most = (x.shape[i + 1] ?? 0) * (block[i] ?? 1);
      call.whole(`the sum of crops[${i}]`, pair[0] + pair[1], 0, most);
    });
  },
  SpaceToBatchND: (call) => {
    const x = call.input('x');
    const block = call.wholes('blockShape', call.attrs.blockShape, undefined, 1);
    if (block.length >= x.shape.length)
      call.refuse(`x ${typeAndShape(x)} has no axes for blocks of [${block}].`);
    pairs(call, 'paddings', block.length).forEach(([before, after], i) => {
      const length = (x.shape[i + 1] ?? 0) + before + after;
      if (length % (block[i] ?? 1) !== 0)
        call.refuse(
          `axis ${i + 1} of x ${typeAndShape(x)}, padded to ${length}, is not divisible into blocks of ${block[i]}.`,
        );
    });
  },
  DepthToSpace: (call) => {
    const x = call.ranked('x', 4);
    const block = call.whole('blockSize', call.attrs.blockSize, 2);
    const depth = x.shape[call.attrs.dataFormat === 'NCHW' ? 1 : 3] ?? 0;
    if (depth % block ** 2 !== 0)
      call.refuse(`the depth of x ${typeAndShape(x)} is not divisible by ${block} squared.`);
  },
};

/** Checks a slice of a tensor of this shape; returns the slice's shape. */
function strided(call: CheckedCall, shape: readonly number[]): number[] {
  for (const name of ['begin', 'end', 'strides']) strides(call, name);
  const { begin, end, strides: steps, ...masks } = call.attrs;
  return computed(
    call,
    () =>
      tf.slice_util.sliceInfo(
        [...shape],
        begin as number[], // checked above
        end as number[],
        steps as number[],
        Number(masks.beginMask ?? 0),
        Number(masks.endMask ?? 0),
        Number(masks.ellipsisMask ?? 0),
        Number(masks.newAxisMask ?? 0),
        Number(masks.shrinkAxisMask ?? 0),
      ).finalShape,
  );
}

function strides(call: CheckedCall, name: string): void {
  call.wholes(name, call.attrs[name], undefined, -(2 ** 31) + 1);
}

/** Returns the checked attribute `name`: pairs of integers of at least 0. */
function pairs(call: CheckedCall, name: string, length: number): [number, number][] {
  const list = call.attrs[name];
  if (!Array.isArray(list) || list.length !== length)
    call.refuse(`${name} must have ${length} pairs of numbers.`);
  return list.map((pair, i) => call.wholes(`${name}[${i}]`, pair, 2, 0) as [number, number]);
}

function paddings(call: CheckedCall): [number, number][] {
  return pairs(call, 'paddings', call.input('x').shape.length);
}

/** Refuses a negative axis, which tfjs's cumulative sums do not support. */
function fromStart(call: CheckedCall): void {
  const { length } = call.input('x').shape;
  if (length > 0) call.whole('axis', call.attrs.axis ?? 0, 0, length - 1);
}

/** Refuses the place of an extreme of no elements. */
function placed(call: CheckedCall): void {
  const x = call.input('x');
  const axis = call.axis('axis', call.attrs.axis, x.shape.length);
  if (x.shape[axis] === 0 && x.shape.every((length, i) => length > 0 || i === axis))
    call.refuse(
      `x ${typeAndShape(x)} has no elements along axis ${axis}, so none of them is the largest or smallest.`,
    );
}

function reduced(call: CheckedCall): void {
  call.axes('axis', call.attrs.axis ?? call.attrs.reductionIndices, call.input('x').shape.length);
}
