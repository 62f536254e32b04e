// One table, with a row for each gradient; it stays in one file, so that a test can compare it with all gradients of the engine.

import * as tf from '../../../../src/core/tf';
import * as ops from '../../../../src/engine/backend/ops';
import * as F from '../../../../src/nn/names/functional-names';

/** An input whose elements are scattered between two bounds and pairwise different, so that no two are equal within a step. */
export interface Input {
  readonly shape: readonly number[];
  readonly low: number;
  readonly high: number;
}

/** A function that is smooth around its inputs. */
export interface SmoothPoint {
  readonly inputs: readonly Input[];
  readonly run: (...inputs: tf.Tensor[]) => tf.Tensor;
}

function of(shape: readonly number[], low = -1, high = 1): Input {
  return { shape, low, high };
}

/** A point of a function whose inputs have certain ranks in tfjs's types; the shapes have these ranks. */
function point<A extends readonly tf.Tensor[]>(
  inputs: readonly Input[],
  run: (...inputs: A) => tf.Tensor,
): SmoothPoint[] {
  return [{ inputs, run: (...given) => run(...(given as unknown as A)) }];
}

/** Points of functions of one tensor between two bounds, by the names of their gradients. */
function unary(
  low: number,
  high: number,
  functions: Readonly<Record<string, (x: tf.Tensor) => tf.Tensor>>,
): Record<string, SmoothPoint[]> {
  const row = (run: (x: tf.Tensor) => tf.Tensor): SmoothPoint[] => point([of([2, 3], low, high)], run);
  return Object.fromEntries(Object.entries(functions).map(([name, run]) => [name, row(run)]));
}

/** Points of functions of two tensors, of equal shapes and of shapes that broadcast on either side. */
function binary(
  left: readonly [low: number, high: number],
  right: readonly [low: number, high: number],
  run: (a: tf.Tensor, b: tf.Tensor) => tf.Tensor,
): SmoothPoint[] {
  const shapes = [[[2, 3], [2, 3]], [[2, 3], [3]], [[3], [2, 3]], [[2, 1], [1, 3]], [[2, 3], []], [[], [2, 3]]]; // biome-ignore format: pairs
  return shapes.flatMap(([a = [], b = []]) => point([of(a, ...left), of(b, ...right)], run));
}

const ints = (values: number[], shape: number[] = [values.length]): tf.Tensor =>
  tf.tensor(values, shape, 'int32');
const kernel = (name: string, inputs: Record<string, tf.Tensor>, attrs: object = {}): tf.Tensor =>
  tf.engine().runKernel(name, inputs, { ...attrs }) as tf.Tensor;
const float = (x: tf.Tensor): tf.Tensor => tf.cast(x, 'float32');

const IMAGE = of([1, 4, 5, 2]);
const PLANES = of([2, 2, 4, 3]);

/** Smooth points of every gradient of the engine, by the names of their kernels. */
export const SMOOTH_POINTS: Readonly<Record<string, readonly SmoothPoint[]>> = {
  ...unary(-0.8, 0.8, { Acos: tf.acos, Asin: tf.asin, Atanh: tf.atanh, Tan: tf.tan }),
  ...unary(1.5, 3, { Acosh: tf.acosh }),
  ...unary(0.4, 2, {
    Log: tf.log,
    Sqrt: tf.sqrt,
    Rsqrt: tf.rsqrt,
    Log1p: tf.log1p,
    Reciprocal: tf.reciprocal,
  }),
  ...unary(-1.5, 1.5, {
    ...{
      Asinh: tf.asinh,
      Atan: tf.atan,
      Cosh: tf.cosh,
      Sinh: tf.sinh,
      Erf: tf.erf,
      Exp: tf.exp,
      Expm1: tf.expm1,
    },
    ...{
      Sin: tf.sin,
      Cos: tf.cos,
      Tanh: tf.tanh,
      Sigmoid: tf.sigmoid,
      Softplus: tf.softplus,
      Square: tf.square,
    },
    ...{
      Neg: tf.neg,
      Identity: (x: tf.Tensor) => kernel('Identity', { x }),
      Abs: tf.abs,
      Relu: tf.relu,
      Elu: tf.elu,
      LeakyRelu: tf.leakyRelu,
      Selu: tf.selu,
    },
    Cast: (x) => tf.cast(x, 'float32'),
    ShardlabGelu: (x) => ops.gelu(x),
  }),
  // Steps between 6 and 7 are flat, and the other values are below 6.
  ...unary(4.1, 7.1, { Relu6: tf.relu6 }),
  // Where these are smooth, they are flat.
  ...unary(0.1, 0.4, {
    Ceil: tf.ceil,
    Floor: tf.floor,
    Round: tf.round,
    Sign: tf.sign,
    Step: (x) => tf.step(x),
  }),
  ...unary(0.1, 0.4, { OnesLike: tf.onesLike, ZerosLike: tf.zerosLike }),
  ...unary(0.1, 0.4, {
    IsFinite: (x) => tf.mul(float(tf.isFinite(x)), x),
    IsInf: (x) => tf.mul(tf.add(float(tf.isInf(x)), 1), x),
    IsNan: (x) => tf.mul(tf.add(float(tf.isNaN(x)), 1), x),
  }),
  Add: binary([-1, 1], [-1, 1], tf.add),
  Sub: binary([-1, 1], [-1, 1], tf.sub),
  Multiply: binary([-1, 1], [-1, 1], tf.mul),
  RealDiv: binary([-1, 1], [0.5, 2], tf.div),
  SquaredDifference: binary([-1, 1], [2, 3], tf.squaredDifference),
  Atan2: binary([0.3, 1], [0.5, 2], tf.atan2),
  Pow: binary([0.5, 2], [1, 2], tf.pow),
  Prelu: point([of([2, 3]), of([3])], tf.prelu).concat(point([of([2, 3]), of([2, 3])], tf.prelu)),
  Maximum: [...binary([-1, 0.2], [0.5, 1], tf.maximum), ...binary([0.5, 1], [-1, 0.2], tf.maximum)],
  Minimum: [...binary([-1, 0.2], [0.5, 1], tf.minimum), ...binary([0.5, 1], [-1, 0.2], tf.minimum)],
  Mod: binary([2.2, 2.8], [1, 1.05], tf.mod),
  FloorDiv: binary([2.2, 2.8], [1, 1.05], tf.floorDiv),
  GreaterEqual: point([of([2, 3]), of([3], 2, 3)], (a, b) =>
    tf.mul(tf.add(float(tf.greaterEqual(a, b)), 1), a),
  ),
  AddN: point([of([2, 3]), of([2, 3]), of([2, 3])], (...all) => tf.addN([...all])),
  ClipByValue: point([of([3, 4])], (x) => tf.clipByValue(x, -0.503, 0.613)),
  Select: point([of([2, 2]), of([2, 2])], (a, b) => tf.where(tf.tensor([1, 0, 0, 1], [2, 2], 'bool'), a, b)),

  // Sums, extremes and scans.
  ...reductions(),
  Softmax: point([of([2, 3])], (x) => tf.softmax(x)),
  Cumsum: point([of([2, 3])], (x) => tf.cumsum(x, 1)).concat(
    point([of([2, 3])], (x) => tf.cumsum(x, 0, true, true)),
  ),
  Cumprod: point([of([2, 3], 0.5, 1.5)], (x) => tf.cumprod(x, 1)).concat(
    point([of([2, 3], 0.5, 1.5)], (x) => tf.cumprod(x, 0, true, true)),
  ),
  ArgMax: point([of([2, 3])], (x) => tf.mul(float(tf.argMax(x, 1)), tf.sum(x, 1))),
  ArgMin: point([of([2, 3])], (x) => tf.mul(float(tf.argMin(x, 1)), tf.sum(x, 1))),
  TopK: point([of([2, 4])], (x) => tf.topk(x, 2).values),

  // What moves elements.
  Reshape: point([of([2, 3])], (x) => tf.reshape(x, [3, 2])),
  ExpandDims: point([of([2, 3])], (x) => tf.expandDims(x, 1)),
  Transpose: point([of([2, 3, 2])], (x) => tf.transpose(x, [2, 0, 1])),
  Reverse: point([of([2, 3])], (x) => tf.reverse(x, 1)),
  Tile: point([of([2, 3])], (x) => tf.tile(x, [2, 3])),
  BatchToSpaceND: point([of([4, 1, 2, 1])], (x) => tf.batchToSpaceND(x, [2, 2], [[0, 1], [0, 0]])), // biome-ignore format: crops
  SpaceToBatchND: point([of([1, 3, 4, 1])], (x) => tf.spaceToBatchND(x, [2, 2], [[1, 0], [0, 0]])), // biome-ignore format: paddings
  DepthToSpace: point([of([1, 2, 1, 8])], (x: tf.Tensor4D) => tf.depthToSpace(x, 2, 'NHWC')),
  Concat: point([of([2, 1]), of([2, 3])], (...all) => tf.concat([...all], 1)),
  Pack: point([of([2]), of([2])], (...all) => tf.stack([...all], 1)),
  Unpack: point([of([2, 3])], (x) =>
    tf.mul(tf.unstack(x, 1)[2] as tf.Tensor, tf.unstack(x, 1)[0] as tf.Tensor),
  ),
  SplitV: point([of([2, 3])], (x) => tf.square(tf.split(x, [1, 2], 1)[1] as tf.Tensor)),
  Slice: point([of([3, 3])], (x) => tf.slice(x, [1, 0], [2, 2])),
  StridedSlice: point([of([5, 3])], (x) => tf.stridedSlice(x, [0, 2], [5, 0], [2, -1])),
  PadV2: point([of([2, 2])], (x) => tf.pad(x, [[1, 0], [0, 2]], 3)), // biome-ignore format: paddings
  MirrorPad: point([of([2, 3])], (x) => tf.mirrorPad(x, [[1, 0], [0, 2]], 'reflect')), // biome-ignore format: paddings
  GatherV2: point([of([3, 2])], (x) => tf.gather(x, ints([2, 0, 2]))).concat(
    point([of([2, 3])], (x) => tf.gather(x, ints([1, 1]), 1)),
  ),
  GatherNd: point([of([3, 2])], (x) => tf.gatherND(x, ints([2, 1, 0, 0, 2, 1], [3, 2]))),
  ScatterNd: point([of([3])], (x) => tf.scatterND(ints([3, 1, 3], [3, 1]), x, [4])),
  UnsortedSegmentSum: point([of([3, 2])], (x) => tf.unsortedSegmentSum(x, ints([1, 0, 1]) as tf.Tensor1D, 3)),
  OneHot: point([of([3], 0.1, 0.6)], (x) => {
    const indices = tf.cast(x, 'int32');
    return kernel('OneHot', { indices }, { depth: 3, onValue: 1, offValue: 2, dtype: 'float32' });
  }),

  // Products, convolutions and pools.
  BatchMatMul: [
    ...point([of([2, 3]), of([3, 4])], (a, b) => tf.matMul(a, b)),
    ...point([of([2, 3, 2]), of([2, 4, 3])], (a, b) => tf.matMul(a, b, true, true)),
    ...point([of([2, 2, 3]), of([3, 2])], (a, b) => tf.matMul(a, b)),
  ],
  ShardlabLinear: point([of([2, 3]), of([4, 3]), of([4])], ops.linear),
  Conv2D: point([IMAGE, of([2, 3, 2, 2])], (x: tf.Tensor4D, w: tf.Tensor4D) =>
    tf.conv2d(x, w, [2, 1], 'same'),
  ),
  Conv2DBackpropInput: point([of([1, 2, 3, 2]), of([2, 2, 1, 2])], (x: tf.Tensor4D, w: tf.Tensor4D) =>
    tf.conv2dTranspose(x, w, [1, 4, 6, 1], 2, 'same'),
  ),
  DepthwiseConv2dNative: point([IMAGE, of([2, 2, 2, 2])], (x: tf.Tensor4D, w: tf.Tensor4D) =>
    tf.depthwiseConv2d(x, w, 1, 'valid'),
  ),
  Conv3D: point([of([1, 2, 3, 2, 2]), of([2, 2, 1, 2, 1])], (x: tf.Tensor5D, w: tf.Tensor5D) =>
    tf.conv3d(x, w, 1, 'same'),
  ),
  Dilation2D: point([IMAGE, of([2, 2, 2])], (x: tf.Tensor4D, w: tf.Tensor3D) =>
    tf.dilation2d(x, w, 1, 'valid'),
  ),
  MaxPool: point([IMAGE], (x: tf.Tensor4D) => tf.maxPool(x, 2, 1, 'same')),
  AvgPool: point([IMAGE], (x: tf.Tensor4D) => tf.avgPool(x, 2, 1, 'same')),
  MaxPool3D: point([of([1, 2, 3, 4, 2])], (x: tf.Tensor5D) => tf.maxPool3d(x, 2, 1, 'valid')),
  AvgPool3D: point([of([1, 2, 3, 4, 2])], (x: tf.Tensor5D) => tf.avgPool3d(x, 2, 1, 'same')),
  ShardlabConv2d: point([PLANES, of([4, 1, 2, 2]), of([4])], (x, w, b) =>
    F.conv2d(x, w, b, { stride: [2, 1], padding: 1, groups: 2 }),
  ),
  ShardlabConv2dInputGrad: point([of([1, 2, 2, 3]), of([2, 3, 2, 2]), of([3])], (x, w, b) =>
    F.convTranspose2d(x, w, b, { stride: 2 }),
  ),
  ShardlabMaxPool2d: point([PLANES], (x) => F.maxPool2d(x, 2, { stride: 1, padding: 1 })),
  ShardlabAveragePool2d: point([PLANES], (x) => F.avgPool2d(x, 2, { stride: 1, padding: 1 })),
  ResizeBilinear: point([of([1, 2, 3, 2])], (x: tf.Tensor4D) => tf.image.resizeBilinear(x, [3, 5])).concat(
    point([of([1, 2, 3, 2])], (x: tf.Tensor4D) => tf.image.resizeBilinear(x, [4, 2], true)),
  ),
  ResizeNearestNeighbor: point([of([1, 2, 3, 2])], (x: tf.Tensor4D) =>
    tf.image.resizeNearestNeighbor(x, [3, 5]),
  ),

  // Norms, attention and losses.
  FusedBatchNorm: point(
    [of([3, 2]), of([2]), of([2], 0.5, 2), of([2]), of([2], 0.5, 2)],
    (x, mean, variance, offset, scale) =>
      tf.batchNorm(
        x,
        mean as tf.Tensor1D,
        variance as tf.Tensor1D,
        offset as tf.Tensor1D,
        scale as tf.Tensor1D,
      ),
  ),
  LRN: point([of([1, 2, 2, 4])], (x: tf.Tensor4D) => tf.localResponseNormalization(x, 1, 1, 0.5, 0.7)),
  ShardlabLayerNorm: point([of([3, 5]), of([5]), of([5])], (x, w, b) => ops.layerNorm(x, w, b)),
  ShardlabCausalSoftmax: point([of([2, 3, 3])], (x) => ops.causalSoftmax(x, 0.7)),
  ShardlabCausalAttention: point([of([1, 3, 12])], (qkv) => ops.causalAttention(qkv, 2)),
  FlashAttention: point([of([1, 4, 2, 3]), of([1, 4, 2, 3]), of([1, 4, 2, 3])], (q, k, v) =>
    F.scaledDotProductAttention(q, k, v, { isCausal: true }),
  ),
  ShardlabCrossEntropy: point([of([3, 4])], (x) => ops.softmaxCrossEntropy(x, ints([0, 3, 2]))),
  ShardlabCrossEntropyInPlace: point([of([3, 4])], (x) =>
    ops.softmaxCrossEntropy(tf.mul(x, 1), ints([0, 3, 2]), { consumeLogits: true }),
  ),
  ShardlabEmbedding: point([of([4, 2])], (table) => ops.embedding(table, ints([3, 0, 3]))),
  ShardlabDropout: point([of([3, 4])], (x) => ops.dropout(x, 0.5, { seeds: [1, 2] })),
};

/** Points of reductions, along axes and over everything. */
function reductions(): Record<string, SmoothPoint[]> {
  const functions = { Sum: tf.sum, Mean: tf.mean, Max: tf.max, Min: tf.min, Prod: tf.prod };
  const rows = Object.entries(functions).map(([name, run]): [string, SmoothPoint[]] => [
    name,
    [[0], [1], [0, 2], undefined].flatMap((axis) => point([of([2, 3, 2], 0.5, 1.5)], (x) => run(x, axis))),
  ]);
  return Object.fromEntries(rows);
}

/** Smooth points of functions whose gradients are in no registry, because they are computed where the function is. */
export const OTHER_POINTS: Readonly<Record<string, readonly SmoothPoint[]>> = {
  'tf.logSoftmax': point([of([2, 3])], (x) => tf.logSoftmax(x)),
  'tf.logSumExp': point([of([2, 3])], (x) => tf.logSumExp(x, 1)),
  'tf.norm': point([of([2, 3])], (x) => tf.norm(x, 2, 1)),
  'tf.moments': point([of([2, 3])], (x) => tf.moments(x, 1).variance),
  'tf.einsum': point([of([2, 3]), of([4, 3])], (a, b) => tf.einsum('ij,kj->ki', a, b)),
  sumRows: point([of([3, 2])], (x) => ops.sumRows(x, ints([2, 0, 2]), 3)),
  'F.gelu': point([of([2, 3])], (x) => F.gelu(x)),
  'F.silu': point([of([2, 3])], (x) => F.silu(x)),
  'F.mish': point([of([2, 3])], (x) => F.mish(x)),
  'F.rmsNorm': point([of([2, 4]), of([4])], (x, w) => F.rmsNorm(x, [4], w)),
  'F.normalize': point([of([2, 4])], (x) => F.normalize(x)),
  'F.cosineSimilarity': point([of([2, 4]), of([2, 4], 0, 2)], (a, b) => F.cosineSimilarity(a, b)),
  'F.binaryCrossEntropy': point([of([2, 3], 0.2, 0.8)], (p) => F.binaryCrossEntropy(p, tf.fill([2, 3], 0.3))),
  'F.binaryCrossEntropyWithLogits': point([of([2, 3])], (x) =>
    F.binaryCrossEntropyWithLogits(x, tf.fill([2, 3], 0.3)),
  ),
  'F.crossEntropy': point([of([2, 3])], (x) =>
    F.crossEntropy(x, ints([2, 0]), { labelSmoothing: 0.1, reduction: 'sum' }),
  ),
  'F.huberLoss': point([of([2, 3])], (x) => F.huberLoss(x, tf.fill([2, 3], 0.05), { delta: 0.403 })),
};
