// One table, with a row for each kernel; it stays in one file, so that a test can compare it with all kernels of the engine.
import * as tf from '../../../src/core/tf';

/** Inputs and attributes of a kernel. Concat and similar kernels take a list. */
export interface KernelArguments {
  readonly inputs: Readonly<Record<string, tf.Tensor>> | readonly tf.Tensor[];
  readonly attrs?: Readonly<Record<string, unknown>>;
}

/** A number that a kernel trusts: valid from `low` to `high`, an error elsewhere. */
export interface TrustedNumber {
  readonly low: number;
  /** Infinity if only memory limits the number. */
  readonly high: number;
  /** Attributes may be any number, elements of tensors any int32, lengths of shapes here 2 to 9; fractions must be finite. */
  readonly from: 'attribute' | 'tensor' | 'shape' | 'fraction';
  readonly call: (value: number) => KernelArguments;
}

const ints = (values: number[], shape: number[] = [values.length]): tf.Tensor =>
  tf.tensor(values, shape, 'int32');
const floats = (...shape: number[]): tf.Tensor => tf.fill(shape, 1);

/** Calls with one trusted number, which must be refused out of its range. */
function attribute(low: number, high: number, call: (value: number) => KernelArguments): TrustedNumber {
  return { low, high, from: 'attribute', call };
}

function length(low: number, high: number, call: (value: number) => KernelArguments): TrustedNumber {
  return { low, high, from: 'shape', call };
}

function fraction(call: (value: number) => KernelArguments): TrustedNumber {
  return { low: 0, high: 1, from: 'fraction', call };
}

function element(high: number, call: (value: number) => KernelArguments, low = 0): TrustedNumber {
  return { low, high, from: 'tensor', call };
}

const conv = { strides: 1, pad: 'valid', dilations: 1, dataFormat: 'NHWC', dimRoundingMode: 'floor' };
const pool = { strides: 1, pad: 'valid', dimRoundingMode: 'floor' };
const image = (): tf.Tensor => floats(1, 3, 3, 2);
/** An image of two channels in torch's layout, and a convolution of it in two groups. */
const planes = (): tf.Tensor => floats(1, 2, 3, 3);
const ownConv = { strides: [1, 1], padding: [0, 0, 0, 0], dilations: [1, 1], groups: 2 };
/** One window, whose rows end at `end`. */
const windowsTo = (end: number) => ({
  inputShape: [1, 2, 3, 3],
  rows: [{ begin: 0, end, count: 1 }],
  columns: [{ begin: 0, end: 2, count: 2 }],
});
const volume = (): tf.Tensor => floats(1, 3, 3, 3, 2);
/** A window's gradient, whose last length fits if `length` is 1. */
const dyOf = (length: number, ...shape: number[]): tf.Tensor =>
  floats(1, ...shape.slice(0, -1), (shape.at(-1) ?? 1) + length - 1);

const window4 = (name: 'filter' | 'x', other: number[]): TrustedNumber =>
  length(1, 3, (value) => ({
    inputs: { x: image(), [name]: floats(value, 2, ...other) },
    attrs: conv,
  }));

const poolCalls = (name: 'x' | 'input', rank: 2 | 3, wrongDy: boolean): readonly TrustedNumber[] => {
  const x = rank === 2 ? image : volume;
  const out = Array<number>(rank).fill(2);
  const attrs = (filterSize: number) => ({ ...pool, filterSize, includeBatchInIndex: false });
  if (!wrongDy) return [attribute(1, 3, (value) => ({ inputs: { [name]: x() }, attrs: attrs(value) }))];
  return [
    length(1, 1, (value) => ({ inputs: { [name]: x(), dy: dyOf(value, ...out, 2) }, attrs: attrs(2) })),
  ];
};

const scatter = (value: number): Record<string, tf.Tensor> => ({
  indices: ints([value, 1], [2, 1]),
  updates: floats(2, 4),
});
const boxes = (): tf.Tensor => tf.tensor2d([[0, 0, 1, 1]]);
const suppression = (value: number): KernelArguments => ({
  inputs: { boxes: boxes(), scores: floats(1) },
  attrs: {
    iouThreshold: 0.5,
    maxOutputSize: value,
    scoreThreshold: 0,
    padToMaxOutputSize: false,
    softNmsSigma: 0,
  },
});
const axisOf =
  (name: string, rest: object = {}) =>
  (value: number): KernelArguments => ({
    inputs: { x: floats(2, 3) },
    attrs: { [name]: value, ...rest },
  });
const segments = [
  element(2, (value) => ({
    inputs: { data: floats(3, 2), indices: ints([0, value]), segmentIds: ints([0, 0]) },
  })),
  element(9, (value) => ({
    inputs: { data: floats(3, 2), indices: ints([0, 1]), segmentIds: ints([value, 9]) },
  })),
];
const bins = [
  element(3, (value) => ({
    inputs: { x: ints([0, value]), weights: floats(2) },
    attrs: { size: 4, binaryOutput: false },
  })),
];
const labels = [element(3, (value) => ({ inputs: { logits: floats(2, 4), labels: ints([1, value]) } }))];
const ofSize = (count: number, call: (one: tf.Tensor) => KernelArguments): TrustedNumber =>
  length(count, count, (value) => call(floats(value)));

/** The numbers that each kernel trusts. A kernel that is neither here nor among those without any fails a test. */
export const TRUSTED_NUMBERS: Readonly<Record<string, readonly TrustedNumber[]>> = {
  GatherV2: [
    element(2, (value) => ({
      inputs: { x: floats(3, 4), indices: ints([0, value]) },
      attrs: { axis: 0, batchDims: 0 },
    })),
    element(3, (value) => ({
      inputs: { x: floats(3, 4), indices: ints([0, value]) },
      attrs: { axis: 1, batchDims: 0 },
    })),
    attribute(-2, 1, (axis) => ({
      inputs: { x: floats(3, 3), indices: ints([0]) },
      attrs: { axis, batchDims: 0 },
    })),
  ],
  GatherNd: [
    element(3, (value) => ({ inputs: { params: floats(3, 4), indices: ints([0, 1, 2, value], [2, 2]) } })),
  ],
  ScatterNd: [element(2, (value) => ({ inputs: scatter(value), attrs: { shape: [3, 4] } }))],
  TensorScatterUpdate: [element(2, (value) => ({ inputs: { tensor: floats(3, 4), ...scatter(value) } }))],
  SparseToDense: [
    element(2, (value) => ({
      inputs: {
        sparseIndices: ints([0, 1, value, 3], [2, 2]),
        sparseValues: floats(2),
        defaultValue: tf.scalar(0),
      },
      attrs: { outputShape: [3, 4] },
    })),
  ],
  UnsortedSegmentSum: [
    element(2, (value) => ({
      inputs: { x: floats(2, 4), segmentIds: ints([0, value]) },
      attrs: { numSegments: 3 },
    })),
  ],
  SparseSegmentSum: segments,
  SparseSegmentMean: segments,
  SparseFillEmptyRows: [
    element(2, (value) => ({
      inputs: {
        indices: ints([0, 1, value, 0], [2, 2]),
        values: floats(2),
        denseShape: ints([3, 4]),
        defaultValue: tf.scalar(0),
      },
    })),
  ],
  SparseReshape: [
    element(2, (value) => ({
      inputs: {
        inputIndices: ints([0, 1, value, 0], [2, 2]),
        inputShape: ints([3, 4]),
        newShape: ints([12]),
      },
    })),
  ],
  Bincount: bins,
  DenseBincount: bins,
  OneHot: [
    element(4, (value) => ({
      inputs: { indices: ints([0, value]) },
      attrs: { depth: 5, onValue: 1, offValue: 0, dtype: 'float32' },
    })),
  ],
  CropAndResize: [
    element(1, (value) => ({
      inputs: { image: floats(2, 4, 4, 1), boxes: boxes(), boxInd: ints([value]) },
      attrs: { cropSize: [2, 2], method: 'bilinear', extrapolationValue: 0 },
    })),
  ],
  NonMaxSuppressionV3: [attribute(0, Infinity, suppression)],
  NonMaxSuppressionV4: [attribute(0, Infinity, suppression)],
  NonMaxSuppressionV5: [attribute(0, Infinity, suppression)],
  SearchSorted: [
    length(2, 2, (value) => ({
      inputs: { sortedSequence: floats(2, 3), values: floats(value, 2) },
      attrs: { side: 'left' },
    })),
  ],
  ShardlabEmbedding: [
    element(3, (value) => ({ inputs: { table: floats(4, 3), ids: ints([0, value]) }, attrs: { rows: 4 } })),
  ],
  ShardlabEmbeddingGrad: [
    element(3, (value) => ({ inputs: { ids: ints([0, value]), dy: floats(2, 3) }, attrs: { rows: 4 } })),
  ],
  ShardlabCrossEntropy: labels,
  ShardlabCrossEntropyInPlace: labels,
  ShardlabCrossEntropyGrad: [
    element(3, (value) => ({
      inputs: { logits: floats(2, 4), labels: ints([1, value]), norms: floats(2), dy: tf.scalar(1) },
    })),
  ],
  Slice: [
    attribute(0, 2, (value) => ({ inputs: { x: floats(4, 3) }, attrs: { begin: [value, 0], size: [2, 3] } })),
    attribute(-1, 3, (value) => ({
      inputs: { x: floats(4, 3) },
      attrs: { begin: [1, 0], size: [value, 3] },
    })),
  ],
  StridedSlice: [
    fraction((value) => ({
      inputs: { x: floats(9, 9) },
      attrs: {
        begin: [0, 0],
        end: [9, 9],
        strides: [2, value + 1],
        beginMask: 0,
        endMask: 0,
        ellipsisMask: 0,
        newAxisMask: 0,
        shrinkAxisMask: 0,
      },
    })),
  ],
  ShardlabStridedSliceGrad: [
    length(5, 5, (value) => ({
      inputs: { dy: floats(value, 9) },
      attrs: { inputShape: [9, 9], begin: [0, 0], end: [9, 9], strides: [2, 1] },
    })),
  ],
  ShardlabTopKGrad: [
    element(3, (value) => ({
      inputs: { dy: floats(2), indices: ints([0, value]) },
      attrs: { inputShape: [4] },
    })),
  ],
  SplitV: [
    length(3, 3, (value) => ({
      inputs: { x: floats(4) },
      attrs: { numOrSizeSplits: [1, value], axis: 0 },
    })),
  ],
  Unpack: [attribute(-2, 1, (axis) => ({ inputs: { value: floats(2, 3) }, attrs: { axis } }))],
  Concat: [
    attribute(-2, 1, (axis) => ({ inputs: [floats(2, 2), floats(2, 2)], attrs: { axis } })),
    length(3, 3, (value) => ({ inputs: [floats(2, 3), floats(2, value)], attrs: { axis: 0 } })),
  ],
  Pack: [
    attribute(-3, 2, (axis) => ({ inputs: [floats(2, 2), floats(2, 2)], attrs: { axis } })),
    length(3, 3, (value) => ({ inputs: [floats(2, 3), floats(2, value)], attrs: { axis: 0 } })),
  ],
  Reshape: [length(3, 3, (value) => ({ inputs: { x: floats(2, 3) }, attrs: { shape: [2, value] } }))],
  ExpandDims: [attribute(-3, 2, (dim) => ({ inputs: { input: floats(2, 3) }, attrs: { dim } }))],
  Transpose: [attribute(1, 1, (value) => ({ inputs: { x: floats(2, 3) }, attrs: { perm: [value, 0] } }))],
  Reverse: [attribute(-2, 1, (value) => ({ inputs: { x: floats(2, 3) }, attrs: { dims: [value] } }))],
  Tile: [
    attribute(0, Infinity, (value) => ({
      inputs: { x: floats(2, 3) },
      attrs: { reps: [value, 1] },
    })),
  ],
  PadV2: [
    attribute(0, Infinity, (value) => ({
      inputs: { x: floats(2, 3) },
      attrs: {
        paddings: [
          [value, 0],
          [0, 0],
        ],
        constantValue: 0,
      },
    })),
  ],
  MirrorPad: [
    attribute(0, 1, (value) => ({
      inputs: { x: floats(2, 3) },
      attrs: {
        paddings: [
          [value, 0],
          [0, 0],
        ],
        mode: 'reflect',
      },
    })),
  ],
  Fill: [
    attribute(0, Infinity, (value) => ({
      inputs: {},
      attrs: { shape: [value], value: 1, dtype: 'float32' },
    })),
  ],
  Range: [
    fraction((value) => ({
      inputs: {},
      attrs: { start: 0, stop: value, step: 1, dtype: 'float32' },
    })),
  ],
  LinSpace: [
    attribute(1, Infinity, (value) => ({
      inputs: {},
      attrs: { start: 0, stop: 1, num: value },
    })),
  ],
  TopK: [attribute(0, 3, (k) => ({ inputs: { x: floats(2, 3) }, attrs: { k, sorted: true } }))],
  Unique: [attribute(-2, 1, axisOf('axis'))],
  Cumsum: [attribute(0, 1, axisOf('axis', { exclusive: false, reverse: false }))],
  ShardlabCumprodGrad: [
    attribute(0, 1, (axis) => ({
      inputs: { x: floats(2, 3), dy: floats(2, 3) },
      attrs: { axis, exclusive: false, reverse: false },
    })),
  ],
  Cumprod: [attribute(0, 1, axisOf('axis', { exclusive: false, reverse: false }))],
  ArgMax: [attribute(-2, 1, axisOf('axis'))],
  ArgMin: [attribute(-2, 1, axisOf('axis'))],
  All: [attribute(-2, 1, (axis) => ({ inputs: { x: tf.cast(floats(2, 3), 'bool') }, attrs: { axis } }))],
  Any: [attribute(-2, 1, (axis) => ({ inputs: { x: tf.cast(floats(2, 3), 'bool') }, attrs: { axis } }))],
  Max: [attribute(-2, 1, axisOf('reductionIndices'))],
  Mean: [attribute(-2, 1, axisOf('axis'))],
  Min: [attribute(-2, 1, axisOf('axis'))],
  Prod: [attribute(-2, 1, axisOf('axis'))],
  Sum: [attribute(-2, 1, axisOf('axis'))],
  Softmax: [attribute(1, 1, (dim) => ({ inputs: { logits: floats(2, 3) }, attrs: { dim } }))],
  Select: [ofSize(3, (t) => ({ inputs: { condition: tf.cast(floats(3), 'bool'), t: floats(3), e: t } }))],
  BatchToSpaceND: [
    attribute(0, 2, (value) => ({
      inputs: { x: floats(4, 1, 2, 1) },
      attrs: {
        blockShape: [2, 2],
        crops: [
          [value, 0],
          [0, 0],
        ],
      },
    })),
  ],
  SpaceToBatchND: [
    length(9, 9, (value) => ({
      inputs: { x: floats(1, value, 2, 1) },
      attrs: {
        blockShape: [9, 2],
        paddings: [
          [0, 0],
          [0, 0],
        ],
      },
    })),
  ],
  DepthToSpace: [
    attribute(2, 2, (blockSize) => ({
      inputs: { x: floats(1, 2, 2, 4) },
      attrs: { blockSize, dataFormat: 'NHWC' },
    })),
  ],
  Conv2D: [window4('filter', [2, 1])],
  FusedConv2D: [
    length(1, 3, (value) => ({
      inputs: { x: image(), filter: floats(value, 2, 2, 1) },
      attrs: { ...conv, activation: 'linear' },
    })),
    ofSize(1, (bias) => ({
      inputs: { x: image(), filter: floats(2, 2, 2, 1), bias },
      attrs: { ...conv, activation: 'linear' },
    })),
  ],
  DepthwiseConv2dNative: [window4('filter', [2, 1])],
  FusedDepthwiseConv2D: [
    length(1, 3, (value) => ({
      inputs: { x: image(), filter: floats(value, 2, 2, 1) },
      attrs: { ...conv, activation: 'linear' },
    })),
  ],
  Conv2DBackpropInput: [
    length(1, 1, (value) => ({
      inputs: { dy: dyOf(value, 2, 2, 1), filter: floats(2, 2, 2, 1) },
      attrs: { ...conv, inputShape: [1, 3, 3, 2] },
    })),
  ],
  Conv2DBackpropFilter: [
    length(1, 1, (value) => ({
      inputs: { x: image(), dy: dyOf(value, 2, 2, 1) },
      attrs: { ...conv, filterShape: [2, 2, 2, 1] },
    })),
  ],
  DepthwiseConv2dNativeBackpropInput: [
    length(1, 1, (value) => ({
      inputs: { dy: dyOf(value, 2, 2, 2), filter: floats(2, 2, 2, 1) },
      attrs: { ...conv, inputShape: [1, 3, 3, 2] },
    })),
  ],
  DepthwiseConv2dNativeBackpropFilter: [
    length(1, 1, (value) => ({
      inputs: { x: image(), dy: dyOf(value, 2, 2, 2) },
      attrs: { ...conv, filterShape: [2, 2, 2, 1] },
    })),
  ],
  Conv3D: [
    length(1, 3, (value) => ({
      inputs: { x: volume(), filter: floats(value, 2, 2, 2, 1) },
      attrs: conv,
    })),
  ],
  Conv3DBackpropFilterV2: [
    length(1, 1, (value) => ({
      inputs: { x: volume(), dy: dyOf(value, 2, 2, 2, 1) },
      attrs: { ...conv, filterShape: [2, 2, 2, 2, 1] },
    })),
  ],
  Conv3DBackpropInputV2: [
    length(1, 1, (value) => ({
      inputs: { dy: dyOf(value, 2, 2, 2, 1), filter: floats(2, 2, 2, 2, 1) },
      attrs: { ...conv, inputShape: [1, 3, 3, 3, 2] },
    })),
  ],
  AvgPool: poolCalls('x', 2, false),
  MaxPool: poolCalls('x', 2, false),
  MaxPoolWithArgmax: poolCalls('x', 2, false),
  AvgPool3D: poolCalls('x', 3, false),
  MaxPool3D: poolCalls('x', 3, false),
  AvgPoolGrad: poolCalls('input', 2, true),
  MaxPoolGrad: poolCalls('input', 2, true),
  AvgPool3DGrad: poolCalls('input', 3, true),
  MaxPool3DGrad: poolCalls('input', 3, true),
  Dilation2D: [window4('filter', [2])],
  Dilation2DBackpropFilter: [
    length(1, 1, (value) => ({
      inputs: { x: image(), filter: floats(2, 2, 2), dy: dyOf(value, 2, 2, 2) },
      attrs: conv,
    })),
  ],
  Dilation2DBackpropInput: [
    length(1, 1, (value) => ({
      inputs: { x: image(), filter: floats(2, 2, 2), dy: dyOf(value, 2, 2, 2) },
      attrs: conv,
    })),
  ],
  Prelu: [
    ofSize(3, (alpha) => ({
      inputs: {
        x: floats(2, 3),
        alpha,
      },
    })),
  ],
  FusedBatchNorm: [
    ofSize(3, (mean) => ({
      inputs: { x: floats(2, 3), mean, variance: floats(3) },
      attrs: { varianceEpsilon: 0.1 },
    })),
  ],
  AddN: [ofSize(3, (one) => ({ inputs: [floats(3), one] }))],
  EluGrad: [ofSize(3, (dy) => ({ inputs: { dy, y: floats(3) } }))],
  Mod: [
    attribute(1, 3, (value) => ({
      inputs: { a: ints([4]), b: ints([value >= 1 && value <= 3 ? value : 0]) },
    })),
  ],
  RealDiv: [
    attribute(1, 3, (value) => ({
      inputs: { a: ints([4]), b: ints([value >= 1 && value <= 3 ? value : 0]) },
    })),
  ],
  FloorDiv: [
    attribute(1, 3, (value) => ({
      inputs: { a: ints([4]), b: ints([value >= 1 && value <= 3 ? value : 0]) },
    })),
  ],
  Multinomial: [
    attribute(0, Infinity, (value) => ({
      inputs: { logits: floats(1, 3) },
      attrs: { numSamples: value, seed: 1, normalized: false },
    })),
  ],
  LRN: [
    attribute(0, Infinity, (value) => ({
      inputs: { x: image() },
      attrs: { depthRadius: value, bias: 1, alpha: 1, beta: 0.5 },
    })),
  ],
  LRNGrad: [
    length(1, 1, (value) => ({
      inputs: { x: image(), y: image(), dy: dyOf(value, 3, 3, 2) },
      attrs: { depthRadius: 1, bias: 1, alpha: 1, beta: 0.5 },
    })),
  ],
  ResizeBilinear: [
    attribute(1, Infinity, (value) => ({
      inputs: { images: image() },
      attrs: { size: [value, 2] },
    })),
  ],
  ResizeNearestNeighbor: [
    attribute(1, Infinity, (value) => ({
      inputs: { images: image() },
      attrs: { size: [value, 2] },
    })),
  ],
  ResizeBilinearGrad: [
    length(1, 1, (value) => ({
      inputs: { images: image(), dy: dyOf(value, 2, 2, 2) },
      attrs: { alignCorners: false },
    })),
  ],
  ResizeNearestNeighborGrad: [
    length(1, 1, (value) => ({
      inputs: { images: image(), dy: dyOf(value, 2, 2, 2) },
      attrs: { alignCorners: false },
    })),
  ],
  FlipLeftRight: [length(1, 1, (value) => ({ inputs: { image: value === 1 ? image() : floats(3, 3) } }))],
  RotateWithOffset: [
    fraction((value) => ({
      inputs: { image: image() },
      attrs: { radians: value, fillValue: 0, center: 0.5 },
    })),
  ],
  Transform: [
    fraction((value) => ({
      inputs: {
        image: image(),
        transforms: tf.tensor2d([[1, 0, value, 0, 1, 0, 0, 0]]),
      },
      attrs: { interpolation: 'bilinear', fillMode: 'constant', fillValue: 0, outputShape: [3, 3] },
    })),
  ],
  ShardlabLayerNorm: [
    ofSize(3, (weight) => ({ inputs: { x: floats(2, 3), weight, bias: floats(3) }, attrs: { eps: 1e-5 } })),
  ],
  ShardlabLayerNormGrad: [
    ofSize(3, (weight) => ({ inputs: { x: floats(2, 3), weight, stats: floats(2, 2), dy: floats(2, 3) } })),
  ],
  ShardlabGeluGrad: [ofSize(3, (dy) => ({ inputs: { x: floats(3), dy } }))],
  ShardlabCausalSoftmax: [
    length(1, 3, (value) => ({ inputs: { scores: floats(value, 3) }, attrs: { scale: 1 } })),
  ],
  ShardlabSoftmaxGrad: [ofSize(3, (dp) => ({ inputs: { p: floats(3), dp }, attrs: { scale: 1 } }))],
  ShardlabScaledGrad: [ofSize(1, (dy) => ({ inputs: { x: floats(3), dy } }))],
  ShardlabCausalAttention: [
    attribute(1, 1, (heads) => ({ inputs: { qkv: floats(1, 2, 3) }, attrs: { heads } })),
  ],
  ShardlabCausalAttentionGrad: [
    ofSize(4, (p) => ({ inputs: { qkv: floats(1, 2, 3), p, dy: floats(1, 2, 1) }, attrs: { heads: 1 } })),
  ],
  FlashAttention: [
    length(2, 2, (value) => ({
      inputs: { q: floats(1, 2, 2, 2), k: floats(1, 2, 2, value), v: floats(1, 2, 2, value) },
      attrs: { causal: true, scale: 1 },
    })),
  ],
  FlashAttentionGrad: [
    ofSize(4, (lse) => ({
      inputs: {
        q: floats(1, 2, 2, 2),
        k: floats(1, 2, 2, 2),
        v: floats(1, 2, 2, 2),
        out: floats(1, 2, 2, 2),
        lse,
        dOut: floats(1, 2, 2, 2),
        dLse: floats(4),
      },
      attrs: { causal: true, scale: 1 },
    })),
  ],
  ShardlabConv2d: [
    length(1, 3, (value) => ({ inputs: { x: planes(), filter: floats(4, 1, value, 2) }, attrs: ownConv })),
    attribute(1, Infinity, (value) => ({
      inputs: { x: planes(), filter: floats(4, 1, 2, 2) },
      attrs: { ...ownConv, strides: [1, value] },
    })),
    attribute(2, 2, (groups) => ({
      inputs: { x: planes(), filter: floats(4, 1, 2, 2) },
      attrs: { ...ownConv, groups },
    })),
    ofSize(4, (bias) => ({ inputs: { x: planes(), filter: floats(4, 1, 2, 2), bias }, attrs: ownConv })),
  ],
  ShardlabConv2dInputGrad: [
    length(2, 2, (value) => ({
      inputs: { dy: floats(1, 4, 2, value), filter: floats(4, 1, 2, 2) },
      attrs: { ...ownConv, inputShape: [1, 2, 3, 3] },
    })),
  ],
  ShardlabConv2dFilterGrad: [
    length(2, 2, (value) => ({
      inputs: { x: planes(), dy: floats(1, 4, 2, value) },
      attrs: { ...ownConv, filterShape: [4, 1, 2, 2] },
    })),
  ],
  ShardlabAveragePool2d: [attribute(0, 3, (value) => ({ inputs: { x: planes() }, attrs: windowsTo(value) }))],
  ShardlabAveragePool2dGrad: [
    attribute(0, 3, (value) => ({ inputs: { dy: floats(1, 2, 1, 1) }, attrs: windowsTo(value) })),
  ],
  ShardlabMaxPool2d: [
    attribute(1, 3, (value) => ({ inputs: { x: planes() }, attrs: { ...ownConv, kernel: [value, 2] } })),
  ],
  ShardlabMaxPool2dGrad: [
    element(8, (value) => ({
      inputs: { dy: floats(1, 2, 1, 1), places: ints([0, value], [1, 2, 1, 1]) },
      attrs: { inputShape: [1, 2, 3, 3] },
    })),
    attribute(2, 2, (value) => ({
      inputs: { dy: floats(1, 2, 1, 1), places: ints([0, 1], [1, 2, 1, 1]) },
      attrs: { inputShape: [1, value, 3, 3] },
    })),
  ],
  ShardlabDropout: [
    attribute(1, 2, (period) => ({ inputs: { x: floats(2) }, attrs: { rate: 0.5, period, seeds: [1, 2] } })),
    fraction((rate) => ({ inputs: { x: floats(2) }, attrs: { rate, period: 1, seeds: [1, 2] } })),
  ],
  ShardlabChannelMoments: [
    length(2, 2, (value) => ({ inputs: { x: value === 2 ? floats(2, 3) : floats(3) } })),
  ],
  ShardlabChannelSums: [length(2, 2, (value) => ({ inputs: { x: value === 2 ? floats(2, 3) : floats(3) } }))],
  ShardlabChannelProducts: [
    ofSize(2, (mean) => ({ inputs: { x: planes(), dy: planes(), mean } })),
    length(3, 3, (value) => ({ inputs: { x: planes(), dy: floats(1, 2, 3, value), mean: floats(2) } })),
  ],
  ShardlabChannelAffine: [ofSize(2, (scale) => ({ inputs: { x: planes(), scale, shift: floats(2) } }))],
  ShardlabChannelGrad: [
    ofSize(2, (slope) => ({
      inputs: { x: planes(), dy: planes(), mean: floats(2), scale: floats(2), offset: floats(2), slope },
    })),
  ],
  BatchMatMul: [
    length(3, 3, (value) => ({
      inputs: { a: floats(2, 3), b: floats(value, 2) },
      attrs: { transposeA: false, transposeB: false },
    })),
  ],
  _FusedMatMul: [
    length(3, 3, (value) => ({
      inputs: { a: floats(2, 3), b: floats(value, 2) },
      attrs: { transposeA: false, transposeB: false, activation: 'linear' },
    })),
  ],
  ShardlabLinear: [
    length(3, 3, (value) => ({
      inputs: { x: floats(2, value), weight: floats(2, 3), bias: floats(2) },
    })),
  ],
};
