import type { WasmContext } from '../wasm-context';
import { CheckedCall, type GivenInputs, type KernelCheck, typeAndShape } from './checked-call';
import { INDEX_CHECKS } from './index-checks';
import { SHAPE_CHECKS } from './shape-checks';
import { VALUE_CHECKS } from './value-checks';
import { WINDOW_CHECKS } from './window-checks';

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
