import * as tf from '../../../core/tf';
import { present } from '../wasm-context';
import { sumTo } from './broadcast-runs';
import { STRIDED_SLICE_GRAD, TOP_K_GRAD } from './strided-kernels';

type Config = Omit<tf.GradConfig, 'kernelName'>;

/** Returns the result of a kernel with one output. */
function run(kernelName: string, inputs: Record<string, tf.Tensor>, attrs: object = {}): tf.Tensor {
  return tf.engine().runKernel(kernelName, inputs, { ...attrs });
}

/** Gradients of operations that move elements, or move a window, where tfjs has none or a wrong one. */
export const STRUCTURE_GRADIENTS: Readonly<Record<string, Config>> = {
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
