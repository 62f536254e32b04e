import * as tf from '../../../core/tf';
import type { Windows } from '../fused/average-pool';
import { conv2DInfo, sizeOf } from '../wasm-context';
import { windowNumbers } from '../window-sizes';
import { type CheckedCall, computed, type KernelCheck, typeAndShape } from './checked-call';

type Shape4 = [number, number, number, number];
type Shape5 = [number, number, number, number, number];
type Pad = Parameters<typeof tf.backend_util.computeConv2DInfo>[4];
type Rounding = 'floor' | 'round' | 'ceil';

/** Checks of kernels that move a window over images; they may read and write only inside their tensors. */
export const WINDOW_CHECKS: Readonly<Record<string, KernelCheck>> = {
  ...rows('Conv2D FusedConv2D Conv2DBackpropInput Conv2DBackpropFilter', (call) => convolved(call, false)),
  ...rows(
    'DepthwiseConv2dNative FusedDepthwiseConv2D DepthwiseConv2dNativeBackpropInput DepthwiseConv2dNativeBackpropFilter',
    (call) => convolved(call, true),
  ),
  ...rows('Conv3D Conv3DBackpropInputV2 Conv3DBackpropFilterV2', convolved3),
  ...rows('AvgPool MaxPool MaxPoolWithArgmax', (call) => pooled(call, call.ranked('x', 4).shape)),
  ...rows('AvgPool3D MaxPool3D', (call) => pooled(call, call.ranked('x', 5).shape)),
  ...rows('AvgPoolGrad MaxPoolGrad', (call) => pooled(call, call.ranked('input', 4).shape)),
  ...rows('AvgPool3DGrad MaxPool3DGrad', (call) => pooled(call, call.ranked('input', 5).shape)),
  ...rows('Dilation2D Dilation2DBackpropInput Dilation2DBackpropFilter', dilated),
  ShardlabConv2d: (call) => {
    ownConvolution(call, call.ranked('x', 4).shape, call.ranked('filter', 4).shape);
    call.sizes(call.input('filter').shape[0] ?? 0, 'bias');
  },
  ShardlabConv2dInputGrad: (call) => {
    const inputShape = call.wholes('inputShape', call.attrs.inputShape, 4, 0);
    call.sameShape('dy', ownConvolution(call, inputShape, call.ranked('filter', 4).shape));
  },
  ShardlabConv2dFilterGrad: (call) => {
    const filterShape = call.wholes('filterShape', call.attrs.filterShape, 4, 1);
    call.sameShape('dy', ownConvolution(call, call.ranked('x', 4).shape, filterShape));
  },
  ShardlabAveragePool2d: (call) => void averaged(call, call.ranked('x', 4).shape),
  ShardlabAveragePool2dGrad: (call) => {
    const inputShape = call.wholes('inputShape', call.attrs.inputShape, 4, 0);
    call.sameShape('dy', averaged(call, inputShape));
  },
  ShardlabMaxPool2d: (call) => {
    const { shape } = call.ranked('x', 4);
    ownWindow(call, shape, call.wholes('kernel', call.attrs.kernel, 2, 1));
  },
  ShardlabMaxPool2dGrad: (call) => {
    const dy = call.ranked('dy', 4);
    call.typed('float32', 'dy');
    call.sameShape('places', dy.shape);
    const inputShape = call.wholes('inputShape', call.attrs.inputShape, 4, 0);
    if (inputShape.slice(0, 2).join() !== dy.shape.slice(0, 2).join())
      call.refuse(`dy ${typeAndShape(dy)} is not the gradient of pooled images [${inputShape}].`);
    const pixels = sizeOf(inputShape.slice(2));
    call.indices('places', pixels, `a plane of ${pixels} pixels`);
  },
};

/** Checks windows of means; returns the result's shape. */
function averaged(call: CheckedCall, shape: readonly number[]): number[] {
  const [images = 0, channels = 0, ...extents] = shape;
  if (call.wholes('inputShape', call.attrs.inputShape, 4, 0).join() !== shape.join())
    call.refuse(`inputShape [${call.attrs.inputShape}] is not the shape [${shape}] of x.`);
  const counts = ['rows', 'columns'].map((name, axis) => {
    const windows = call.attrs[name] as Windows; // made by averagePool2d
    windows.forEach(({ begin, end, count }, i) => {
      call.whole(`${name}[${i}].end`, end, 0, extents[axis]);
      call.whole(`${name}[${i}].begin`, begin, 0, end);
      call.whole(`${name}[${i}].count`, count, 1);
    });
    return windows.length;
  });
  return [images, channels, ...counts];
}

/** Returns checks of kernels; `resultOf` gives the shape of the forward's result. A gradient's dy must have this shape. */
function rows(names: string, resultOf: (call: CheckedCall) => number[]): Record<string, KernelCheck> {
  const checkOf = (name: string): KernelCheck => {
    if (/Grad$|Backprop/.test(name)) return (call) => call.sameShape('dy', resultOf(call));
    return name.startsWith('Fused') ? (call) => fused(call, resultOf(call)) : (call) => void resultOf(call);
  };
  return Object.fromEntries(names.split(' ').map((name) => [name, checkOf(name)]));
}

/** Returns the shapes of input and filter. A gradient's kernel gets one of these two shapes as an attribute. */
function operands(call: CheckedCall, rank: number): [readonly number[], readonly number[]] {
  const shapeIn = (name: string): number[] => {
    const shape = call.wholes(name, call.attrs[name], rank, 0);
    // Only the number of images can be 0.
    shape.slice(1).forEach((length, i) => void call.whole(`${name}[${i + 1}]`, length, 1));
    return shape;
  };
  return [
    /BackpropInput/.test(call.kernel) ? shapeIn('inputShape') : call.ranked('x', rank).shape,
    /BackpropFilter/.test(call.kernel) ? shapeIn('filterShape') : call.ranked('filter', rank).shape,
  ];
}

/** Returns the shape of a convolution's result. */
function convolved(call: CheckedCall, depthwise: boolean): number[] {
  const [x, filter] = operands(call, 4);
  steps(call);
  const format = call.attrs.dataFormat === 'NCHW' ? 'channelsFirst' : 'channelsLast';
  const channels = x[format === 'channelsLast' ? 3 : 1];
  if (filter[2] !== channels)
    call.refuse(`a filter for ${filter[2]} channels does not fit an input of ${channels} channels ([${x}]).`);
  const info = computed(call, () => conv2DInfo(x, filter, call.attrs, depthwise, format));
  return windowed(call, info, x, filter.slice(0, 2));
}

function convolved3(call: CheckedCall): number[] {
  const [x, filter] = operands(call, 5);
  const { strides, dilations, pad } = call.attrs;
  steps(call);
  if (filter[3] !== x[4])
    call.refuse(`a filter for ${filter[3]} channels does not fit an input of ${x[4]} channels ([${x}]).`);
  const info = computed(call, () =>
    tf.backend_util.computeConv3DInfo(
      x as Shape5, // ranks are checked
      filter as Shape5,
      strides as number,
      (dilations ?? 1) as number,
      pad as 'valid' | 'same' | number,
    ),
  );
  return windowed(call, info, x, filter.slice(0, 3));
}

/** Returns the shape of the result of a convolution in torch's layout. See [Note: convolutions]. */
function ownConvolution(call: CheckedCall, x: readonly number[], filter: readonly number[]): number[] {
  const groups = call.whole('groups', call.attrs.groups, 1);
  const [outputs = 0, perGroup = 0, ...kernel] = filter;
  const channels = perGroup * groups;
  if (channels === x[3] && channels < (x[1] ?? 0))
    call.refuse(
      `the input [${x}] has its ${x[3]} channels last, but images are [N, C, H, W]: write x.transpose([0, 3, 1, 2]).`,
    );
  if (channels !== x[1] || outputs % groups !== 0)
    call.refuse(
      `a filter [${filter}] in ${groups} group${groups === 1 ? '' : 's'} does not fit an input [${x}]: it must be ` +
        '[outputs, channels / groups, height, width], and both numbers of channels must be divisible by groups.',
    );
  return [x[0] ?? 0, outputs, ...ownWindow(call, x, kernel)];
}

/** Checks a window over images [N, C, H, W]; returns the height and width of the result. */
function ownWindow(call: CheckedCall, x: readonly number[], kernel: readonly number[]): [number, number] {
  const { strides, padding, dilations, ceilMode } = call.attrs;
  const numbers = windowNumbers(x.slice(2), kernel, {
    strides: call.wholes('strides', strides, 2, 1) as [number, number],
    padding: call.wholes('padding', padding, 4, 0) as [number, number, number, number],
    dilations: call.wholes('dilations', dilations, 2, 1) as [number, number],
    ceilMode: ceilMode === true,
  });
  const [outY, outX] = [numbers[10], numbers[11]];
  if (outY < 1 || outX < 1)
    call.refuse(
      `a window of [${kernel}] does not fit into [${x}]. Make the kernel smaller, or pad the input.`,
    );
  return [outY, outX];
}

/** Returns the shape of the result of pooling over images or volumes. */
function pooled(call: CheckedCall, x: readonly number[]): number[] {
  const { filterSize, strides, pad, dimRoundingMode } = call.attrs;
  steps(call);
  const { computePool2DInfo, computePool3DInfo } = tf.backend_util;
  // These are the types of tfjs's attributes; the caller has checked the rank of x.
  const [filter, stride, rounding] = [filterSize as number, strides as number, dimRoundingMode as Rounding];
  const info = computed(call, () =>
    x.length === 4
      ? computePool2DInfo(x as Shape4, filter, stride, 1, pad as Pad, rounding)
      : computePool3DInfo(x as Shape5, filter, stride, 1, pad as 'valid' | 'same' | number, rounding),
  );
  return windowed(call, info, x, [filter].flat());
}

function dilated(call: CheckedCall): number[] {
  const [x, filter] = [call.ranked('x', 4).shape, call.ranked('filter', 3).shape];
  const { strides, pad, dilations } = call.attrs;
  steps(call);
  if (filter[2] !== x[3])
    call.refuse(`a filter of ${filter[2]} channels does not fit an input of ${x[3]} channels ([${x}]).`);
  const info = computed(call, () =>
    tf.backend_util.computeDilation2DInfo(
      x as Shape4, // ranks are checked
      filter as [number, number, number],
      strides as number,
      pad as 'valid' | 'same' | number,
      'NHWC',
      (dilations ?? 1) as number,
    ),
  );
  return windowed(call, info, x, filter.slice(0, 2));
}

/** Checks that strides, dilations and filter sizes are integers of at least 1. */
function steps(call: CheckedCall): void {
  for (const name of ['strides', 'dilations', 'filterSize']) {
    const value = call.attrs[name];
    if (value !== undefined && value !== null) call.wholes(name, [value].flat(), undefined, 1);
  }
}

interface Windowed {
  readonly outShape: readonly number[];
  readonly padInfo: Readonly<Record<string, number | string>>;
}

/** Refuses a window that does not fit into the input, and padding that is not an integer. Returns the result's shape. */
function windowed(
  call: CheckedCall,
  info: Windowed,
  x: readonly number[],
  filter: readonly number[],
): number[] {
  for (const [side, amount] of Object.entries(info.padInfo))
    if (side !== 'type') call.whole(`the padding at ${side}`, amount, 0);
  const { outShape } = info;
  if (outShape.some((length, axis) => !Number.isInteger(length) || length < (axis === 0 ? 0 : 1))) {
    call.refuse(
      `a window of [${filter}] does not fit into an input of [${x}]: the result would have the shape [${outShape}]. ` +
        'Make the filter smaller, or pad the input.',
    );
  }
  return [...outShape];
}

/** Checks that the bias and PReLU weights of a fused convolution have one number per output channel. */
function fused(call: CheckedCall, outShape: readonly number[]): void {
  const channels = outShape.at(-1) ?? 0;
  call.sizes(channels, 'bias');
  const alpha = call.optional('preluActivationWeights');
  if (alpha !== undefined && alpha.shape.length > 0 && alpha.shape.at(-1) !== channels)
    call.refuse(`preluActivationWeights is ${typeAndShape(alpha)}, but must have ${channels} elements.`);
}
