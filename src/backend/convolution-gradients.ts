import * as tf from '../core/tf';
import {
  given,
  type Kernel,
  offsetOf,
  replaceKernel,
  runKernel,
  sizeOf,
  type WasmContext,
} from './wasm-context';

/**
 * Registers gradients that tfjs's wasm backend lacks: of convolutions with respect to the filter, and both gradients of
 * depthwise convolutions. Data is NHWC, as in the backend's own convolutions.
 */
export function registerConvolutionGradients(context: WasmContext): void {
  replaceKernel('Conv2DBackpropFilter', () => filterGradient(context));
  replaceKernel('DepthwiseConv2dNativeBackpropFilter', () => depthwiseFilterGradient(context));
  replaceKernel('DepthwiseConv2dNativeBackpropInput', () => depthwiseInputGradient(context));
}

type ConvInfo = ReturnType<typeof tf.backend_util.computeConv2DInfo>;
type Shape4 = [number, number, number, number];
type Pad = Parameters<typeof tf.backend_util.computeConv2DInfo>[4];

/** Size of the columns that are made at once. */
const COLUMN_BYTES = 32 * 2 ** 20;

function infoOf(
  inputShape: readonly number[],
  filterShape: readonly number[],
  attrs: Readonly<Record<string, unknown>>,
  depthwise: boolean,
): ConvInfo {
  const { strides, pad, dimRoundingMode } = attrs;
  // tfjs checked shapes and attributes when it ran the convolution itself.
  return tf.backend_util.computeConv2DInfo(
    inputShape as Shape4,
    filterShape as Shape4,
    strides as number,
    (attrs.dilations ?? 1) as number,
    pad as Pad,
    dimRoundingMode as 'floor' | undefined,
    depthwise,
  );
}

/**
 * The filter's gradient is columnsᵀ · dy, where row i of the columns is the filter's input at output position i
 * (im2col), a few images at a time.
 */
function filterGradient(context: WasmContext): Kernel {
  return ({ x, dy }, attrs) => {
    const [input, gradient] = [given(x), given(dy)];
    const filterShape = attrs.filterShape as number[]; // of tfjs's own kernel
    const info = infoOf(input.shape, filterShape, attrs, false);
    const { batchSize, outHeight, outWidth, outChannels, inChannels, filterHeight, filterWidth } = info;
    const positions = outHeight * outWidth;
    const width = filterHeight * filterWidth * inChannels;
    const out = context.backend.makeOutput(filterShape, 'float32');
    context.kernels.fill(offsetOf(context, out), 0, sizeOf(filterShape));
    const atOnce = Math.max(1, Math.min(batchSize, Math.floor(COLUMN_BYTES / (4 * positions * width))));
    for (let first = 0; first < batchSize; first += atOnce) {
      const count = Math.min(atOnce, batchSize - first);
      const columns = context.backend.makeOutput([count * positions, width], 'float32');
      layOut(context, input, columns, info, first, count);
      const part = runKernel(
        'Slice',
        { x: gradient },
        { begin: [first, 0, 0, 0], size: [count, outHeight, outWidth, outChannels] },
      );
      const rows = { ...part, shape: [count * positions, outChannels] };
      const product = runKernel(
        'BatchMatMul',
        { a: columns, b: rows },
        { transposeA: true, transposeB: false },
      );
      context.kernels.addScaled(offsetOf(context, out), offsetOf(context, product), 1, sizeOf(filterShape));
      for (const { dataId } of [columns, part, product]) context.backend.disposeData(dataId);
    }
    return out;
  };
}

function layOut(
  context: WasmContext,
  input: tf.TensorInfo,
  columns: tf.TensorInfo,
  info: ConvInfo,
  first: number,
  count: number,
): void {
  const { inChannels, filterHeight, filterWidth } = info;
  if (!context.hasValues) return;
  const from = context.backend.typedArrayFromHeap(input);
  const to = context.backend.typedArrayFromHeap(columns).fill(0);
  const width = filterHeight * filterWidth * inChannels;
  let row = 0;
  for (let image = first; image < first + count; image++) {
    forEachPosition(info, (y, x) => {
      forEachTap(info, y, x, (pixel, tap) => {
        const source = (image * info.inHeight * info.inWidth + pixel) * inChannels;
        to.set(from.subarray(source, source + inChannels), row * width + tap * inChannels);
      });
      row++;
    });
  }
}

function depthwiseFilterGradient(context: WasmContext): Kernel {
  return ({ x, dy }, attrs) => {
    const [input, gradient] = [given(x), given(dy)];
    const filterShape = attrs.filterShape as number[]; // of tfjs's own kernel
    const info = infoOf(input.shape, filterShape, attrs, true);
    const out = context.backend.makeOutput(filterShape, 'float32');
    if (!context.hasValues) return out;
    const result = context.backend.typedArrayFromHeap(out).fill(0);
    const [values, dys] = [input, gradient].map((one) => context.backend.typedArrayFromHeap(one)) as [
      Float32Array,
      Float32Array,
    ];
    visitDepthwise(info, filterShape, (at) => {
      result[at.filter] = (result[at.filter] ?? 0) + (values[at.input] ?? 0) * (dys[at.output] ?? 0);
    });
    return out;
  };
}

function depthwiseInputGradient(context: WasmContext): Kernel {
  return ({ dy, filter }, attrs) => {
    const [gradient, weights] = [given(dy), given(filter)];
    const inputShape = attrs.inputShape as number[]; // of tfjs's own kernel
    const info = infoOf(inputShape, weights.shape, attrs, true);
    const out = context.backend.makeOutput(inputShape, 'float32');
    if (!context.hasValues) return out;
    const result = context.backend.typedArrayFromHeap(out).fill(0);
    const [taps, dys] = [weights, gradient].map((one) => context.backend.typedArrayFromHeap(one)) as [
      Float32Array,
      Float32Array,
    ];
    visitDepthwise(info, weights.shape, (at) => {
      result[at.input] = (result[at.input] ?? 0) + (taps[at.filter] ?? 0) * (dys[at.output] ?? 0);
    });
    return out;
  };
}

/**
 * Calls `visit` for every multiplication in a depthwise convolution, with the elements' indices in input, filter and
 * output.
 */
function visitDepthwise(
  info: ConvInfo,
  filterShape: readonly number[],
  visit: (at: { readonly input: number; readonly filter: number; readonly output: number }) => void,
): void {
  const { batchSize, inChannels, inHeight, inWidth } = info;
  const multiplier = filterShape[3] ?? 1;
  let output = 0;
  for (let image = 0; image < batchSize; image++) {
    forEachPosition(info, (y, x) => {
      const position = output;
      forEachTap(info, y, x, (pixel, tap) => {
        for (let channel = 0; channel < inChannels * multiplier; channel++) {
          const source = Math.floor(channel / multiplier);
          const input = (image * inHeight * inWidth + pixel) * inChannels + source;
          visit({ input, filter: tap * inChannels * multiplier + channel, output: position + channel });
        }
      });
      output += inChannels * multiplier;
    });
  }
}

function forEachPosition({ outHeight, outWidth }: ConvInfo, visit: (y: number, x: number) => void): void {
  for (let y = 0; y < outHeight; y++) for (let x = 0; x < outWidth; x++) visit(y, x);
}

/**
 * The filter's elements that are inside the image at an output position: the pixel's number, and the filter element's.
 */
function forEachTap(info: ConvInfo, y: number, x: number, visit: (pixel: number, tap: number) => void): void {
  const { filterHeight, filterWidth, strideHeight, strideWidth, padInfo, inHeight, inWidth } = info;
  const { dilationHeight, dilationWidth } = info;
  for (let tapY = 0; tapY < filterHeight; tapY++) {
    const row = y * strideHeight + tapY * dilationHeight - padInfo.top;
    if (row < 0 || row >= inHeight) continue;
    for (let tapX = 0; tapX < filterWidth; tapX++) {
      const column = x * strideWidth + tapX * dilationWidth - padInfo.left;
      if (column < 0 || column >= inWidth) continue;
      visit(row * inWidth + column, tapY * filterWidth + tapX);
    }
  }
}
