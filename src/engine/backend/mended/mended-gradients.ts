import * as tf from '../../../core/tf';
import { present } from '../wasm-context';
import { sumTo } from './broadcast-runs';
import { CUMPROD_GRAD } from './scan-kernels';
import { STRIDED_SLICE_GRAD, TOP_K_GRAD } from './strided-kernels';

/*
 * [Note: gradients of tfjs] tfjs's gradients of maximum, minimum and squaredDifference ignore broadcasts, those of max and min give
 * each of several equal elements the whole gradient, that of abs is -1 at 0, that of cumsum has other axes, and so on. The rules
 * here are torch's: a gradient has its input's shape, equal elements share it, and at the corner of abs it is 0.
 */

/**
 * Replaces gradients of tfjs that are wrong, missing, or slow. See [Note: gradients of tfjs]. For sums and means, tfjs multiplies
 * by an array of ones, as large as the input, which JavaScript makes outside of the engine; for a mean, tfjs then divides every
 * element. Here a kernel makes the ones, and for a mean only the gradient of the result is divided.
 */
export function mendGradients(): void {
  for (const [kernelName, config] of Object.entries({ ...GRADIENTS, ...STRUCTURE_GRADIENTS }))
    tf.registerGradient({ kernelName, ...config });
  fromStart('Prod');
  for (const kernelName of TO_LISTS) acceptOnePart(kernelName);
  for (const kernelName of BROADCAST) acceptNothing(kernelName);
}

type Saved = readonly tf.Tensor[];

function unaryGradient(
  saves: { readonly inputsToSave?: string[]; readonly outputsToSave?: boolean[] },
  compute: (dy: tf.Tensor, saved: Saved, attrs: tf.NamedAttrMap) => tf.Tensor,
): Omit<tf.GradConfig, 'kernelName'> {
  return { ...saves, gradFunc: (dy, saved, attrs) => ({ x: () => compute(dy as tf.Tensor, saved, attrs) }) };
}

const OF_X = { inputsToSave: ['x'] };

const GRADIENTS: Readonly<Record<string, Omit<tf.GradConfig, 'kernelName'>>> = {
  Sum: unaryGradient(OF_X, (dy, [x], { axis }) => repeatAlong(dy, present(x), axis as number[])),
  Mean: unaryGradient(OF_X, (dy, [x], { axis }) =>
    repeatAlong(tf.div(dy, present(x).size / Math.max(1, dy.size)), present(x), axis as number[]),
  ),
  Abs: unaryGradient(OF_X, (dy, [x]) => tf.mul(dy, tf.sign(present(x)))),
  Max: extremeGradient(),
  Min: extremeGradient(),
  Maximum: pairGradient((dy, a, b) => halfWhereEqual(dy, tf.greater(a, b), tf.equal(a, b))),
  Minimum: pairGradient((dy, a, b) => halfWhereEqual(dy, tf.less(a, b), tf.equal(a, b))),
  SquaredDifference: pairGradient((dy, a, b) => tf.mul(dy, tf.mul(tf.sub(a, b), 2))),
  // tfjs has the gradient of a division; a floor is flat.
  FloorDiv: pairGradient((dy) => tf.zerosLike(dy)),
  Select: {
    inputsToSave: ['condition'],
    gradFunc: (gradient, [condition]) => {
      const [dy, chosen] = [gradient as tf.Tensor, present(condition)];
      return {
        condition: () => tf.zerosLike(tf.cast(chosen, 'float32')),
        // A product would make NaN of the gradient's infinities where it is masked.
        t: () => tf.where(chosen, dy, tf.zerosLike(dy)),
        e: () => tf.where(chosen, tf.zerosLike(dy), dy),
      };
    },
  },
  Cumsum: unaryGradient({}, (dy, _, { axis, exclusive, reverse }) =>
    tf.cumsum(dy, Number(axis), exclusive === true, reverse !== true),
  ),
  Cumprod: unaryGradient(OF_X, (dy, [x], attrs) =>
    tf.engine().runKernel(CUMPROD_GRAD, { x: present(x), dy }, { ...attrs }),
  ),
  Rsqrt: unaryGradient({ outputsToSave: [true] }, (dy, [y]) =>
    tf.mul(tf.mul(dy, -0.5), tf.mul(present(y), tf.square(present(y)))),
  ),
  Tan: unaryGradient({ outputsToSave: [true] }, (dy, [y]) => tf.mul(dy, tf.add(tf.square(present(y)), 1))),
};

/** The gradient of max and min: equal elements share it. */
function extremeGradient(): Omit<tf.GradConfig, 'kernelName'> {
  return unaryGradient({ ...OF_X, outputsToSave: [true] }, (dy, [x, y], attrs) => {
    const axes = tf.util.parseAxisParam((attrs.reductionIndices ?? attrs.axis) as number[], present(x).shape);
    const kept = tf.backend_util.expandShapeToKeepDim(
      present(x).shape.filter((_, i) => !axes.includes(i)),
      axes,
    );
    const chosen = tf.cast(tf.equal(present(x), tf.reshape(present(y), kept)), 'float32');
    return tf.mul(chosen, tf.div(tf.reshape(dy, kept), tf.sum(chosen, axes, true)));
  });
}

/** A gradient of two broadcast inputs: `compute` returns that of the first from (dy, first, second), in the result's shape. */
function pairGradient(
  compute: (dy: tf.Tensor, own: tf.Tensor, factor: tf.Tensor) => tf.Tensor,
): Omit<tf.GradConfig, 'kernelName'> {
  return {
    inputsToSave: ['a', 'b'],
    gradFunc: (dy, saved) => {
      const [a, b] = [present(saved[0]), present(saved[1])];
      return {
        a: () => sumTo(compute(dy as tf.Tensor, a, b), a.shape),
        b: () => sumTo(compute(dy as tf.Tensor, b, a), b.shape),
      };
    },
  };
}

/** Returns dy where `wins`, half of it where `ties`, else 0. */
function halfWhereEqual(dy: tf.Tensor, wins: tf.Tensor, ties: tf.Tensor): tf.Tensor {
  return tf.mul(dy, tf.add(tf.cast(wins, 'float32'), tf.mul(tf.cast(ties, 'float32'), 0.5)));
}

/** The other kernels with two broadcast inputs that have a gradient. */
const BROADCAST = ['Add', 'Sub', 'Multiply', 'RealDiv', 'Pow', 'Mod', 'Atan2'];

/** tfjs does not see that an axis of length 1 was broadcast to length 0; the gradients of a result without elements are 0. */
function acceptNothing(kernelName: string): void {
  const { gradFunc, ...config } = present(tf.getGradient(kernelName));
  tf.unregisterGradient(kernelName);
  tf.registerGradient({
    ...config,
    gradFunc: (dy, saved, attrs) => {
      if (Array.isArray(dy) || dy.size > 0) return gradFunc(dy, saved, attrs);
      const [a, b] = [present(saved[0]), present(saved[1])];
      return { a: () => tf.zerosLike(a), b: () => tf.zerosLike(b) };
    },
  });
}

/** tfjs's gradient of a product takes no axis that counts from the end. */
function fromStart(kernelName: 'Prod'): void {
  const { gradFunc, ...config } = present(tf.getGradient(kernelName));
  tf.unregisterGradient(kernelName);
  tf.registerGradient({
    ...config,
    gradFunc: (dy, saved, { axis, ...attrs }) =>
      gradFunc(dy, saved, {
        ...attrs,
        axis: tf.util.parseAxisParam(axis as number[], present(saved[0]).shape),
      }),
  });
}

/** The kernels with a list of outputs that have a gradient. */
const TO_LISTS = ['Unpack', 'SplitV'] as const;

/** tfjs passes the gradient of a single output as a tensor, but the gradients of these kernels read a list. */
function acceptOnePart(kernelName: (typeof TO_LISTS)[number]): void {
  const { gradFunc, ...config } = present(tf.getGradient(kernelName));
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

type Config = Omit<tf.GradConfig, 'kernelName'>;

/** Returns the result of a kernel with one output. */
function run(kernelName: string, inputs: Record<string, tf.Tensor>, attrs: object = {}): tf.Tensor {
  return tf.engine().runKernel(kernelName, inputs, { ...attrs });
}

/** Gradients of operations that move elements, or move a window, where tfjs has none or a wrong one. */
const STRUCTURE_GRADIENTS: Readonly<Record<string, Config>> = {
  BatchMatMul: {
    inputsToSave: ['a', 'b'],
    gradFunc: (gradient, saved, { transposeA, transposeB }) => {
      const [dy, a, b] = [gradient as tf.Tensor, present(saved[0]), present(saved[1])];
      const [isA, isB] = [transposeA === true, transposeB === true];
      return {
        a: () => sumTo(isA ? tf.matMul(b, dy, isB, true) : tf.matMul(dy, b, false, !isB), a.shape),
        b: () => sumTo(isB ? tf.matMul(dy, a, true, isA) : tf.matMul(a, dy, !isA, false), b.shape),
      };
    },
  },
  Conv2D: convolution('Conv2D'),
  DepthwiseConv2dNative: convolution('DepthwiseConv2dNative'),
  MirrorPad: {
    inputsToSave: ['x'],
    gradFunc: (dy, [x], { paddings, mode }) => ({
      x: () =>
        foldBack(
          dy as tf.Tensor,
          present(x).shape,
          paddings as unknown as Pair[],
          mode === 'reflect' ? 1 : 0,
        ),
    }),
  },
  ResizeBilinear: resized('ResizeBilinearGrad'),
  ResizeNearestNeighbor: resized('ResizeNearestNeighborGrad'),
  GatherNd: {
    inputsToSave: ['params', 'indices'],
    gradFunc: (dy, saved) => {
      const [params, indices] = [present(saved[0]), present(saved[1])];
      return {
        params: () => tf.scatterND(indices, dy as tf.Tensor, params.shape),
        indices: () => tf.zerosLike(indices),
      };
    },
  },
  ScatterNd: {
    inputsToSave: ['indices'],
    gradFunc: (dy, [indices]) => ({
      updates: () => tf.gatherND(dy as tf.Tensor, present(indices)),
      indices: () => tf.zerosLike(present(indices)),
    }),
  },
  StridedSlice: {
    inputsToSave: ['x'],
    gradFunc: (dy, [x], attrs) => ({
      x: () => run(STRIDED_SLICE_GRAD, { dy: dy as tf.Tensor }, { ...attrs, inputShape: present(x).shape }),
    }),
  },
  TopK: {
    inputsToSave: ['x'],
    outputsToSave: [false, true],
    gradFunc: (dys, saved) => {
      const [x, indices] = [present(saved[0]), present(saved[1])];
      const [dy] = [dys].flat();
      return { x: () => run(TOP_K_GRAD, { dy: present(dy), indices }, { inputShape: x.shape }) };
    },
  },
  DepthToSpace: {
    inputsToSave: ['x'],
    gradFunc: (dy, [x], { blockSize, dataFormat }) => ({
      x: () => spaceToDepth(dy as tf.Tensor, present(x).shape, Number(blockSize), dataFormat !== 'NCHW'),
    }),
  },
};

/** The gradients of a convolution of images; tfjs refuses dilations. */
function convolution(kernelName: string): Config {
  return {
    inputsToSave: ['x', 'filter'],
    gradFunc: (gradient, saved, attrs) => {
      const [dy, x, filter] = [gradient as tf.Tensor, present(saved[0]), present(saved[1])];
      return {
        x: () => run(`${kernelName}BackpropInput`, { dy, filter }, { ...attrs, inputShape: x.shape }),
        filter: () => run(`${kernelName}BackpropFilter`, { x, dy }, { ...attrs, filterShape: filter.shape }),
      };
    },
  };
}

function resized(kernelName: string): Config {
  return {
    inputsToSave: ['images'],
    gradFunc: (dy, [images], attrs) => ({
      images: () => run(kernelName, { images: present(images), dy: dy as tf.Tensor }, attrs as object),
    }),
  };
}

type Pair = readonly [number, number];

/** Adds the mirrored borders of dy to the elements that they show; `edge` is 1 if a border leaves out the outermost element. */
function foldBack(
  dy: tf.Tensor,
  shape: readonly number[],
  paddings: readonly Pair[],
  edge: 0 | 1,
): tf.Tensor {
  let folded = dy;
  for (const [axis, [before, after]] of paddings.entries()) {
    const length = shape[axis] ?? 0;
    const part = (start: number, count: number): tf.Tensor => {
      const begin = shape.map((_, i) => (i === axis ? start : 0));
      return tf.slice(
        folded,
        begin,
        folded.shape.map((extent, i) => (i === axis ? count : extent)),
      );
    };
    const placed = (border: tf.Tensor, start: number): tf.Tensor =>
      tf.pad(
        tf.reverse(border, axis),
        border.shape.map((count, i) => (i === axis ? [start, length - start - count] : [0, 0])),
      );
    const parts = [part(before, length)];
    if (before > 0) parts.push(placed(part(0, before), edge));
    if (after > 0) parts.push(placed(part(before + length, after), length - after - edge));
    folded = tf.addN(parts);
  }
  return folded;
}

function spaceToDepth(dy: tf.Tensor, shape: readonly number[], block: number, isLast: boolean): tf.Tensor {
  const last = isLast ? dy : tf.transpose(dy, [0, 2, 3, 1]);
  const [batch = 0, height = 0, width = 0, channels = 0] = last.shape;
  const split = tf.reshape(last, [batch, height / block, block, width / block, block, channels]);
  const joined = tf.reshape(tf.transpose(split, [0, 1, 3, 2, 4, 5]), [
    batch,
    height / block,
    width / block,
    block * block * channels,
  ]);
  return tf.reshape(isLast ? joined : tf.transpose(joined, [0, 3, 1, 2]), [...shape]);
}
