import { sizeOf, type WasmContext } from '../wasm-context';
import { CheckedCall, type GivenInputs, type KernelCheck, typeAndShape } from './checked-call';
import { INDEX_CHECKS } from './index-checks';
import { SHAPE_CHECKS } from './shape-checks';
import { WINDOW_CHECKS } from './window-checks';

/** Checks of kernels that assume that the shapes of two inputs match, or that numbers are finite. */
const VALUE_CHECKS: Readonly<Record<string, KernelCheck>> = {
  Prelu: (call) => trailing(call, 'alpha', call.input('x').shape),
  FusedBatchNorm: (call) => {
    const { shape } = call.input('x');
    for (const name of ['mean', 'variance', 'offset', 'scale']) trailing(call, name, shape);
  },
  AddN: (call) => call.alike(),
  EluGrad: (call) => call.sameShape('dy', call.input('y').shape),
  Mod: divisor,
  RealDiv: divisor,
  FloorDiv: divisor,
  Multinomial: (call) => {
    call.ranked('logits', 2);
    call.whole('numSamples', call.attrs.numSamples, 0);
    call.finiteValues('logits');
  },
  LRN: (call) => {
    call.ranked('x', 4);
    call.whole('depthRadius', call.attrs.depthRadius, 0);
  },
  LRNGrad: (call) => {
    const { shape } = call.ranked('x', 4);
    call.sameShape('y', shape);
    call.sameShape('dy', shape);
    call.whole('depthRadius', call.attrs.depthRadius, 0);
  },
  ResizeBilinear: resized,
  ResizeNearestNeighbor: resized,
  ResizeBilinearGrad: resizedGrad,
  ResizeNearestNeighborGrad: resizedGrad,
  FlipLeftRight: (call) => void call.ranked('image', 4),
  RotateWithOffset: (call) => {
    call.ranked('image', 4);
    call.finite('radians', call.attrs.radians);
    for (const value of [call.attrs.center].flat()) call.finite('center', value);
  },
  Transform: (call) => {
    const image = call.ranked('image', 4);
    const transforms = call.ranked('transforms', 2);
    if (transforms.shape[1] !== 8 || ![1, image.shape[0]].includes(transforms.shape[0]))
      call.refuse(`transforms is ${typeAndShape(transforms)}, but must be [1 or ${image.shape[0]}, 8].`);
    call.typed('float32', 'transforms');
    call.finiteValues('transforms');
    if (call.attrs.outputShape !== undefined && call.attrs.outputShape !== null)
      call.wholes('outputShape', call.attrs.outputShape, 2, 1);
  },
  ShardlabLayerNorm: (call) => call.sizes(call.input('x').shape.at(-1) ?? 1, 'weight', 'bias'),
  ShardlabLayerNormGrad: (call) => {
    const { shape } = call.input('x');
    call.sizes(shape.at(-1) ?? 1, 'weight');
    call.sizes(2 * sizeOf(shape.slice(0, -1)), 'stats');
    call.sizes(sizeOf(shape), 'dy');
  },
  ShardlabGeluGrad: (call) => call.sizes(sizeOf(call.input('x').shape), 'dy'),
  ShardlabCausalSoftmax: (call) => {
    const { shape } = call.input('scores');
    const [rows = 0, columns = 0] = shape.slice(-2);
    if (shape.length < 2 || columns < rows) call.refuse(`scores [${shape}] has fewer columns than rows.`);
  },
  ShardlabSoftmaxGrad: (call) => call.sizes(sizeOf(call.input('p').shape), 'dp'),
  ShardlabScaledGrad: (call) => call.sizes(1, 'dy'),
  ShardlabCausalAttention: (call) => void attention(call),
  ShardlabCausalAttentionGrad: (call) => {
    const [batch, seq, width] = attention(call);
    call.sizes((batch * seq * width) / 3, 'dy');
    call.sizes(batch * Number(call.attrs.heads) * seq * seq, 'p');
  },
  ShardlabDropout: (call) => {
    const size = sizeOf(call.input('x').shape);
    const period = call.whole('period', call.attrs.period, 1);
    if (size % period !== 0) call.refuse(`${size} elements are not divisible into groups of ${period}.`);
    call.wholes('seeds', call.attrs.seeds, 2, -(2 ** 31) + 1);
    call.finite('rate', call.attrs.rate);
  },
  ShardlabChannelMoments: (call) => perChannel(call),
  ShardlabChannelSums: (call) => perChannel(call),
  ShardlabChannelAffine: (call) => perChannel(call, 'scale', 'shift'),
  ShardlabChannelProducts: (call) => {
    perChannel(call, 'mean');
    call.sameShape('dy', call.input('x').shape);
  },
  ShardlabChannelGrad: (call) => {
    perChannel(call, 'mean', 'scale', 'offset', 'slope');
    call.sameShape('dy', call.input('x').shape);
  },
  FlashAttention: (call) => void flash(call),
  FlashAttentionGrad: (call) => {
    const [batch = 0, queries = 0, heads = 0] = flash(call);
    call.sizes(sizeOf(call.input('q').shape), 'out', 'dOut');
    call.sizes(batch * queries * heads, 'lse', 'dLse');
  },
};

/** Checks that an input's shape equals the last axes of x's shape: tfjs repeats the input's elements over x. */
function trailing(call: CheckedCall, name: string, shape: readonly number[]): void {
  const info = call.optional(name);
  if (info === undefined || sizeOf(info.shape) === 1) return;
  const own = info.shape.slice(info.shape.findIndex((length) => length !== 1));
  if (own.length > shape.length || own.join() !== shape.slice(shape.length - own.length).join())
    call.refuse(`${name} is ${typeAndShape(info)}, but its shape must equal the last axes of [${shape}].`);
}

/** Refuses an integer division by zero: in WebAssembly it is a trap, and in C++ its result is undefined. */
function divisor(call: CheckedCall): void {
  const b = call.input('b');
  if (b.dtype !== 'int32') return;
  const values = call.values('b');
  for (let i = 0; i < values.length; i++)
    if (values[i] === 0)
      call.refuse(
        `element ${i} of the divisor ${typeAndShape(b)} is 0; cast a and b to float32 to get infinity.`,
      );
}

function resized(call: CheckedCall): void {
  call.ranked('images', 4);
  call.wholes('size', call.attrs.size, 2, 1);
}

function resizedGrad(call: CheckedCall): void {
  const images = call.ranked('images', 4);
  const dy = call.ranked('dy', 4);
  call.typed('float32', 'dy');
  if (dy.shape[0] !== images.shape[0] || dy.shape[3] !== images.shape[3])
    call.refuse(
      `dy ${typeAndShape(dy)} cannot be the gradient of a resize of images ${typeAndShape(images)}.`,
    );
}

/** Checks that x is [N, C, …], and that the other inputs have one element for each of the C channels. */
function perChannel(call: CheckedCall, ...names: readonly string[]): void {
  const x = call.input('x');
  if (x.shape.length < 2) call.refuse(`x is ${typeAndShape(x)}; it must be [images, channels, …].`);
  call.sizes(x.shape[1] ?? 0, ...names);
}

function attention(call: CheckedCall): readonly [number, number, number] {
  const { shape } = call.ranked('qkv', 3);
  const [batch = 0, seq = 0, width = 0] = shape;
  const heads = call.whole('heads', call.attrs.heads, 1);
  if (width % (3 * heads) !== 0) call.refuse(`qkv [${shape}] is not divisible into 3 times ${heads} heads.`);
  return [batch, seq, width];
}

function flash(call: CheckedCall): readonly number[] {
  const { shape } = call.ranked('q', 4);
  const k = call.ranked('k', 4);
  call.sameShape('v', k.shape);
  const [batch, , heads = 0, headDim] = shape;
  const groups = k.shape[2] ?? 0;
  if (k.shape[0] !== batch || k.shape[3] !== headDim || heads % groups !== 0)
    call.refuse(
      `k ${typeAndShape(k)} does not fit q [${shape}]: batch and head size must be equal, and q's heads divisible by k's.`,
    );
  return shape;
}

/*
 * [Note: checked kernels] Kernels in C++ and assembly do not check their arguments: with a wrong index, size or type they
 * read or write memory outside of their tensors. So each registered kernel has a row in one of these tables, and its
 * arguments are checked before it runs, also if a gradient or another kernel calls it. A test lists tfjs's registry and
 * fails for a kernel without a row. A dry run checks shapes, but not values, because its tensors have no values.
 */

/** All checks of kernels except the checks of types. */
export const CHECKS: Readonly<Record<string, KernelCheck>> = {
  ...INDEX_CHECKS,
  ...SHAPE_CHECKS,
  ...WINDOW_CHECKS,
  ...VALUE_CHECKS,
};

/**
 * Kernels with one input or two broadcast inputs. Only the inputs' types are checked, because no argument is an index or a
 * size.
 */
const ELEMENTWISE =
  'Abs Acos Acosh Add Asin Asinh Atan Atan2 Atanh BitwiseAnd Cast Ceil ClipByValue Cos Cosh Diag Elu Equal Erf Exp Expm1 ' +
  'Floor Greater GreaterEqual Identity IsFinite IsInf IsNan LeakyRelu Less LessEqual Log Log1p LogicalAnd LogicalNot ' +
  'LogicalOr LogicalXor Maximum Minimum Multiply Neg NotEqual OnesLike Pow Reciprocal Relu Relu6 Round Rsqrt Selu ' +
  'ShardlabGelu Sigmoid Sign Sin Sinh Softplus Sqrt Square SquaredDifference Step Sub Tan Tanh ZerosLike';

/** Kernels that check their shapes themselves (matmuls), or that work on JavaScript's arrays. */
const ELSEWHERE =
  'BatchMatMul _FusedMatMul ShardlabLinear BroadcastArgs StringNGrams StringSplit StringToHashBucketFast';

const FLOAT = types('float32');
const NUMBERS = types('float32 int32');
const BOOLEAN = types('bool');
const ALL_BUT_STRINGS = types('float32 int32 bool');

/**
 * The allowed types of a kernel's inputs: the kernel would misread the bytes of other types. A kernel that is not in this
 * table allows all types except strings.
 */
const TYPES: ReadonlyMap<string, ReadonlySet<string>> = new Map([
  ...named(
    FLOAT,
    'Acosh Asinh Atanh Ceil Cos Cosh Elu EluGrad Erf Floor Log Log1p Reciprocal Rsqrt Sigmoid Sin Softmax Sqrt Tan Tanh ' +
      'AvgPool AvgPoolGrad AvgPool3D AvgPool3DGrad MaxPool MaxPoolGrad MaxPool3D MaxPool3DGrad MaxPoolWithArgmax Conv2D ' +
      'Conv2DBackpropFilter Conv2DBackpropInput Conv3D Conv3DBackpropFilterV2 Conv3DBackpropInputV2 DepthwiseConv2dNative ' +
      'DepthwiseConv2dNativeBackpropFilter DepthwiseConv2dNativeBackpropInput FusedConv2D FusedDepthwiseConv2D DepthToSpace ' +
      'FusedBatchNorm LRN LRNGrad BatchMatMul _FusedMatMul ShardlabLinear ShardlabLayerNorm ShardlabLayerNormGrad ' +
      'ShardlabGelu ShardlabGeluGrad ShardlabCausalSoftmax ShardlabSoftmaxGrad ShardlabScaledGrad ShardlabCausalAttention ' +
      'ShardlabCausalAttentionGrad FlashAttention FlashAttentionGrad ShardlabConv2d ShardlabConv2dInputGrad ' +
      'ShardlabConv2dFilterGrad ShardlabMaxPool2d ShardlabChannelMoments ShardlabChannelSums ShardlabChannelProducts ' +
      'ShardlabChannelAffine ShardlabChannelGrad ShardlabDropout',
  ),
  ...named(
    NUMBERS,
    'Abs Acos Asin Atan Atan2 Bincount ClipByValue Cumprod Cumsum DenseBincount Dilation2D Dilation2DBackpropFilter ' +
      'Dilation2DBackpropInput Exp Expm1 FloorDiv LeakyRelu Maximum Minimum Mod Neg Prelu Prod Relu Relu6 Reverse Round ' +
      'RotateWithOffset SearchSorted Selu Sign Sinh Softplus SparseFillEmptyRows SparseSegmentMean SparseSegmentSum Square ' +
      'Step Sum TopK Transform',
  ),
  ...named(BOOLEAN, 'All Any LogicalAnd LogicalNot LogicalOr LogicalXor'),
  ...named(
    types('float32 int32 bool string'),
    'Cast Concat ExpandDims Fill Identity OnesLike Pack Reshape Slice SplitV StringNGrams StringSplit ' +
      'StringToHashBucketFast Unique Unpack ZerosLike',
  ),
]);

/** Kernels with two inputs that read the second input as if it had the type of the first. */
const OF_ONE_TYPE = new Set(
  (
    'Add Atan2 BitwiseAnd Equal FloorDiv Greater GreaterEqual Less LessEqual LogicalAnd LogicalOr LogicalXor Maximum ' +
    'Minimum Mod Multiply NotEqual Pow RealDiv SquaredDifference Sub'
  ).split(' '),
);

/** Kernels for which only the types are checked here. */
export const UNCHECKED: ReadonlySet<string> = new Set(`${ELEMENTWISE} ${ELSEWHERE}`.split(' '));

/** Returns the check that runs before a kernel. See [Note: checked kernels]. */
export function checkOf(
  context: WasmContext,
  kernelName: string,
): (inputs: GivenInputs, attrs: Readonly<Record<string, unknown>>) => void {
  const allowed = TYPES.get(kernelName) ?? ALL_BUT_STRINGS;
  const isOfOneType = OF_ONE_TYPE.has(kernelName);
  const check = CHECKS[kernelName];
  return (inputs, attrs) => {
    for (const name in inputs) {
      const input = inputs[name];
      if (input != null && !allowed.has(input.dtype))
        callOf(inputs, attrs).refuse(
          `${name} is ${typeAndShape(input)}; cast it to ${[...allowed].join(' or ')}.`,
        );
    }
    if (isOfOneType && inputs.a?.dtype !== inputs.b?.dtype)
      callOf(inputs, attrs).refuse(
        `a is ${inputs.a?.dtype} and b is ${inputs.b?.dtype}; cast one of them to the other's type.`,
      );
    check?.(callOf(inputs, attrs));
  };

  function callOf(inputs: GivenInputs, attrs: Readonly<Record<string, unknown>>): CheckedCall {
    return new CheckedCall(context, kernelName, inputs, attrs);
  }
}

function types(names: string): ReadonlySet<string> {
  return new Set(names.split(' '));
}

function named(allowed: ReadonlySet<string>, names: string): [string, ReadonlySet<string>][] {
  return names.split(' ').map((name) => [name, allowed]);
}
