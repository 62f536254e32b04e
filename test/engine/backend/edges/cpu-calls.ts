import * as tf from '../../../../src/core/tf';

/*
 * Calls of kernels that torch does not have, whose right values are those of tfjs's JavaScript backend. A call returns results, and
 * gradients where the operation has them.
 */

const { NaN: N, POSITIVE_INFINITY: INF } = Number;
const floats = (values: number[], shape: number[] = [values.length]): tf.Tensor => tf.tensor(values, shape);
const ints = (values: number[], shape: number[] = [values.length]): tf.Tensor =>
  tf.tensor(values, shape, 'int32');
/** Scattered values between -1 and 1. */
const ramp = (...shape: number[]): tf.Tensor =>
  tf.tensor(
    Float32Array.from(
      { length: shape.reduce((a, b) => a * b, 1) },
      (_, k) => (((7919 * k) % 1009) / 1009) * 2 - 1,
    ),
    shape,
  );
const kernel = (name: string, inputs: Record<string, tf.Tensor>, attrs: object = {}): tf.Tensor[] =>
  [tf.engine().runKernel(name, inputs, { ...attrs }) as tf.Tensor | tf.Tensor[]].flat();
const withGradient = (run: (x: tf.Tensor) => tf.Tensor, x: tf.Tensor): tf.Tensor[] => [
  run(x),
  tf.grad((y) => tf.sum(tf.mul(run(y), run(y))))(x),
];
const boxes = (): tf.Tensor =>
  tf.tensor2d([
    [0, 0, 1, 1],
    [0, 0, 0.9, 1],
    [0.5, 0.5, 1, 1],
    [-1, -1, 0, 0],
  ]);
const suppression = {
  iouThreshold: 0.5,
  maxOutputSize: 3,
  scoreThreshold: 0.1,
  padToMaxOutputSize: true,
  softNmsSigma: 0,
};
const conv = {
  strides: [1, 1],
  dilations: [1, 1],
  pad: 'valid',
  dataFormat: 'NHWC',
  dimRoundingMode: 'floor',
};
/** Two segments of rows. */
const segments = () => ({ data: ramp(3, 2), indices: ints([0, 2, 2]), segmentIds: ints([0, 0, 1]) });

/** The calls by the names of their kernels. */
export const CPU_CALLS: Readonly<Record<string, () => readonly tf.Tensor[]>> = {
  BatchToSpaceND: () =>
    withGradient(
      (x) =>
        tf.batchToSpaceND(
          x,
          [2, 2],
          [
            [0, 1],
            [1, 0],
          ],
        ),
      ramp(4, 2, 2, 1),
    ),
  SpaceToBatchND: () =>
    withGradient(
      (x) =>
        tf.spaceToBatchND(
          x,
          [2, 2],
          [
            [1, 0],
            [0, 1],
          ],
        ),
      ramp(1, 3, 3, 1),
    ),
  CropAndResize: () => [
    ...(['bilinear', 'nearest'] as const).map((method) =>
      tf.image.cropAndResize(
        ramp(1, 3, 3, 2) as tf.Tensor4D,
        tf.tensor2d([
          [0, 0, 1, 1],
          [-0.5, 0.2, 1.5, 0.8],
        ]),
        tf.tensor1d([0, 0], 'int32'),
        [2, 3],
        method,
        7,
      ),
    ),
  ],
  DenseBincount: () => [
    tf.denseBincount(ints([0, 2, 2, 1], [2, 2]) as tf.Tensor2D, ramp(2, 2) as tf.Tensor2D, 3),
    tf.denseBincount(ints([0, 2, 2, 1]) as tf.Tensor1D, floats([1, N, 2, INF]) as tf.Tensor1D, 3),
    tf.denseBincount(ints([0, 2, 2, 1], [2, 2]) as tf.Tensor2D, ramp(2, 2) as tf.Tensor2D, 3, true),
  ],
  Dilation2D: () =>
    withGradient(
      (x) => tf.dilation2d(x as tf.Tensor4D, ramp(2, 2, 2) as tf.Tensor3D, 1, 'valid'),
      ramp(1, 4, 3, 2),
    ),
  Dilation2DBackpropFilter: () =>
    withGradient(
      (w) => tf.dilation2d(ramp(1, 4, 3, 2) as tf.Tensor4D, w as tf.Tensor3D, 2, 'same'),
      ramp(2, 2, 2),
    ),
  FlipLeftRight: () => [
    tf.image.flipLeftRight(ramp(1, 2, 3, 2) as tf.Tensor4D),
    tf.image.flipLeftRight(ramp(1, 2, 1, 1) as tf.Tensor4D),
  ],
  FusedBatchNorm: () => [
    tf.batchNorm(
      floats([1, N, INF, -2, 0, 5], [3, 2]),
      floats([0, 1]),
      floats([1, 0]),
      floats([0.5, 0.5]),
      floats([2, 3]),
    ),
    ...withGradient(
      (x) => tf.batchNorm(x, floats([0.1, 1]), floats([1, 0.3]), floats([0.5, 0.5]), floats([2, 3])),
      ramp(3, 2),
    ),
    tf.batchNorm(ramp(0, 2), floats([0, 1]), floats([1, 0])),
  ],
  FusedConv2D: () => [
    ...['linear', 'relu', 'relu6', 'sigmoid', 'elu'].flatMap((activation) =>
      kernel(
        'FusedConv2D',
        { x: ramp(1, 4, 4, 2), filter: ramp(2, 2, 2, 3), bias: ramp(3) },
        { ...conv, activation },
      ),
    ),
    ...kernel(
      'FusedConv2D',
      { x: ramp(1, 9, 5, 1), filter: ramp(2, 2, 1, 1), bias: ramp(1) },
      { ...conv, strides: [5, 2], pad: 'same', activation: 'linear' },
    ),
  ],
  FusedDepthwiseConv2D: () => [
    ...kernel(
      'FusedDepthwiseConv2D',
      { x: ramp(1, 4, 4, 2), filter: ramp(2, 2, 2, 1), bias: ramp(2) },
      { ...conv, activation: 'relu' },
    ),
    ...kernel(
      'FusedDepthwiseConv2D',
      { x: ramp(1, 5, 5, 2), filter: ramp(2, 2, 2, 1), bias: ramp(2) },
      { ...conv, strides: [3, 3], pad: 'same', activation: 'linear' },
    ),
  ],
  LinSpace: () => [tf.linspace(0, 1, 1), tf.linspace(-1, 1, 5), tf.linspace(3, 3, 2)],
  MaxPoolWithArgmax: () =>
    kernel(
      'MaxPoolWithArgmax',
      { x: ramp(1, 4, 4, 2) },
      { filterSize: [2, 2], strides: [2, 2], pad: 'valid', includeBatchInIndex: false },
    ),
  NonMaxSuppressionV3: () =>
    kernel('NonMaxSuppressionV3', { boxes: boxes(), scores: floats([0.9, 0.8, 0.7, 0.2]) }, suppression),
  NonMaxSuppressionV4: () =>
    kernel('NonMaxSuppressionV4', { boxes: boxes(), scores: floats([0.9, 0.8, 0.7, 0.2]) }, suppression),
  NonMaxSuppressionV5: () =>
    kernel(
      'NonMaxSuppressionV5',
      { boxes: boxes(), scores: floats([0.9, 0.8, 0.7, 0.2]) },
      { ...suppression, softNmsSigma: 0.5 },
    ),
  RotateWithOffset: () =>
    [0, 0.5, -2].map((angle) => tf.image.rotateWithOffset(ramp(1, 3, 3, 1) as tf.Tensor4D, angle, 7)),
  SparseFillEmptyRows: () =>
    kernel('SparseFillEmptyRows', {
      indices: ints([0, 0, 2, 1], [2, 2]),
      values: floats([1, 2]),
      denseShape: ints([4, 2]),
      defaultValue: tf.scalar(-1),
    }),
  SparseReshape: () =>
    kernel('SparseReshape', {
      inputIndices: ints([0, 0, 1, 1], [2, 2]),
      inputShape: ints([2, 2]),
      newShape: ints([4, -1]),
    }),
  SparseSegmentMean: () => [
    ...kernel('SparseSegmentMean', segments()),
    ...kernel('SparseSegmentMean', { ...segments(), segmentIds: ints([0, 0, 3]) }),
  ],
  SparseSegmentSum: () => [
    ...kernel('SparseSegmentSum', segments()),
    ...kernel('SparseSegmentSum', { ...segments(), segmentIds: ints([0, 0, 3]) }),
  ],
  SparseToDense: () => [
    tf.sparseToDense(ints([0, 3]), floats([N, 2]), [5], 7),
    tf.sparseToDense(ints([0, 1, 1, 0], [2, 2]), ints([16777217, 5]), [2, 2], tf.scalar(3, 'int32')),
  ],
  TensorScatterUpdate: () => [
    tf.tensorScatterUpdate(ramp(4), ints([1, 3], [2, 1]), floats([N, INF])),
    tf.tensorScatterUpdate(ints([1, 2, 3]), ints([1], [1, 1]), ints([16777217])),
  ],
  Transform: () => [
    ...(['nearest', 'bilinear'] as const).flatMap((method) =>
      (['constant', 'reflect', 'wrap', 'nearest'] as const).map((fill) =>
        tf.image.transform(
          ramp(1, 3, 3, 1) as tf.Tensor4D,
          tf.tensor2d([[1, 0.2, -0.7, 0.1, 0.9, 0.3, 0, 0]]),
          method,
          fill,
          7,
        ),
      ),
    ),
  ],
};

/** Kernels without a right value to compare: random numbers, and texts, which run in JavaScript. */
export const WITHOUT_VALUES = [
  'Multinomial',
  'BroadcastArgs',
  'StringNGrams',
  'StringSplit',
  'StringToHashBucketFast',
];
