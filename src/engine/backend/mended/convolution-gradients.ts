import type * as tf from '../../../core/tf';
import {
  type ConvInfo,
  conv2DInfo,
  type Kernel,
  offsetOf,
  present,
  replaceKernel,
  runKernel,
  sizeOf,
  type WasmContext,
} from '../wasm-context';

/**
 * Registers gradients that tfjs's wasm backend lacks: the filter's gradient of convolutions, the input's gradient of dilated ones,
 * and both gradients of depthwise convolutions; and mends the padding of convolutions. The layout is NHWC, as in the backend's convolutions.
 */
export function registerConvolutionGradients(context: WasmContext): void {
  for (const name of ['Conv2D', 'FusedConv2D', 'DepthwiseConv2dNative', 'FusedDepthwiseConv2D'])
    replaceKernel(name, (original) => withExplicitPads(original, name.includes('Depthwise')));
  replaceKernel('Conv2DBackpropInput', (original) => inputGradient(context, original));
  replaceKernel('Conv2DBackpropFilter', () => filterGradient(context));
  replaceKernel('DepthwiseConv2dNativeBackpropFilter', () => depthwiseGradient(context, 'filter'));
  replaceKernel('DepthwiseConv2dNativeBackpropInput', () => depthwiseGradient(context, 'input'));
}

/** tfjs pads as 'same' wrongly where the stride is larger than the filter; explicit amounts of the same padding are right. */
function withExplicitPads(original: Kernel | null, depthwise: boolean): Kernel {
  return (inputs, attrs) => {
    if (attrs.pad !== 'same') return present(original)(inputs, attrs);
    const { top, bottom, left, right } = conv2DInfo(
      present(inputs.x).shape,
      present(inputs.filter).shape,
      attrs,
      depthwise,
    ).padInfo;
    const pad = [
      [0, 0],
      [top, bottom],
      [left, right],
      [0, 0],
    ];
    return present(original)(inputs, { ...attrs, pad });
  };
}

/** Returns the kernel of the input's gradient; tfjs's handles neither dilations nor batches without images. */
function inputGradient(context: WasmContext, original: Kernel | null): Kernel {
  return ({ dy, filter }, attrs) => {
    const inputShape = attrs.inputShape as number[]; // tfjs's kernel has this attribute
    const isDilated = ((attrs.dilations ?? 1) as number | number[]).toString().replace(/[1,]/g, '') !== '';
    if (!isDilated && inputShape[0] !== 0)
      return present(original)({ dy: present(dy), filter: present(filter) }, attrs);
    const info = conv2DInfo(inputShape, present(filter).shape, attrs, false);
    const { batchSize, outHeight, outWidth, outChannels, inChannels, filterHeight, filterWidth } = info;
    const [rows, width] = [batchSize * outHeight * outWidth, filterHeight * filterWidth * inChannels];
    const a = { ...present(dy), shape: [rows, outChannels] };
    const b = { ...present(filter), shape: [width, outChannels] };
    const columns = runKernel('BatchMatMul', { a, b }, { transposeA: false, transposeB: true });
    const out = context.backend.makeOutput(inputShape, 'float32');
    const [from, to] = [offsetOf(context, columns), offsetOf(context, out)];
    context.kernels.fill(to, 0, sizeOf(inputShape));
    let row = 0;
    for (let image = 0; image < batchSize; image++) {
      forEachPosition(info, (y, x) => {
        forEachTap(info, y, x, (pixel, tap) => {
          const target = (image * info.inHeight * info.inWidth + pixel) * inChannels;
          context.kernels.addScaled(
            to + 4 * target,
            from + 4 * (row * width + tap * inChannels),
            1,
            inChannels,
          );
        });
        row++;
      });
    }
    context.backend.disposeData(columns.dataId);
    return out;
  };
}

/** Largest number of bytes that columns may use at one time. */
const COLUMN_BYTES = 32 * 2 ** 20;

/**
 * Returns the kernel of the filter's gradient, columnsᵀ · dy. Row i of the columns has the pixels that the filter reads for
 * output position i (im2col). The kernel handles a few images at a time.
 */
function filterGradient(context: WasmContext): Kernel {
  return ({ x, dy }, attrs) => {
    const [input, gradient] = [present(x), present(dy)];
    const filterShape = attrs.filterShape as number[]; // tfjs's kernel has this attribute
    const info = conv2DInfo(input.shape, filterShape, attrs, false);
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

/**
 * Returns the kernel of a depthwise convolution's gradient: the gradient of `target` is a sum of products of dy and the other
 * operand (x or filter).
 */
function depthwiseGradient(context: WasmContext, target: 'filter' | 'input'): Kernel {
  return ({ x, filter, dy }, attrs) => {
    const [operand, factor] =
      target === 'filter' ? [present(x), 'input' as const] : [present(filter), 'filter' as const];
    const shape = attrs[`${target}Shape`] as number[]; // an attribute of tfjs's kernel
    const [inputShape, filterShape] = target === 'filter' ? [operand.shape, shape] : [shape, operand.shape];
    const info = conv2DInfo(inputShape, filterShape, attrs, true);
    const out = context.backend.makeOutput(shape, 'float32');
    if (!context.hasValues) return out;
    const result = context.backend.typedArrayFromHeap(out).fill(0);
    const [factors, dys] = [operand, present(dy)].map((info) => context.backend.typedArrayFromHeap(info));
    visitDepthwise(info, filterShape, (at) => {
      result[at[target]] = (result[at[target]] ?? 0) + (factors?.[at[factor]] ?? 0) * (dys?.[at.output] ?? 0);
    });
    return out;
  };
}

/**
 * Calls `visit` for every multiplication of a depthwise convolution, with the indices of the elements of input, filter and
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
 * Calls `visit` for every filter element that is inside the image at an output position, with the indices of the pixel and of
 * the filter element.
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
