import * as tf from '../../../core/tf';
import {
  type Attributes,
  heapProduct,
  offsetOf,
  present,
  replaceKernel,
  sizeOf,
  type WasmContext,
} from '../wasm-context';
import { type ConvSizes, convSizes, type WindowAttributes } from '../window-sizes';
import { FUSED, runForFirst, withScratch } from './fused-kernel';

/*
 * [Note: convolutions] Images are [N, C, H, W], as in torch. For each image and each group of channels, the windows become
 * the columns of a matrix (im2col), and one matmul with the filter [outputs, C / groups * height * width] makes the result.
 * A 1 x 1 filter without stride and padding needs no columns: the image already is this matrix. Source: Chellapilla et al.
 * 2006; Caffe.
 */

/** Registers convolutions of images, and the gradients of their inputs and filters. */
export function registerConvolutions(context: WasmContext): void {
  replaceKernel(
    FUSED.conv2d,
    () =>
      ({ x, filter, bias }, attrs) =>
        convolve(context, present(x), present(filter), bias, attrs),
  );
  replaceKernel(
    FUSED.conv2dInputGrad,
    () =>
      ({ dy, filter }, attrs) =>
        inputGradient(context, present(dy), present(filter), attrs),
  );
  replaceKernel(
    FUSED.conv2dFilterGrad,
    () =>
      ({ x, dy }, attrs) =>
        filterGradient(context, present(x), present(dy), attrs),
  );
  tf.registerGradient({
    kernelName: FUSED.conv2d,
    inputsToSave: ['x', 'filter'],
    gradFunc: (dy, saved, attrs) => {
      const [x, filter] = [present(saved[0]), present(saved[1])];
      const gradient = dy as tf.Tensor; // the kernel has one output
      return {
        x: () => inputGradientOf(gradient, filter, x.shape, attrs),
        filter: () => filterGradientOf(x, gradient, filter.shape, attrs),
        bias: () => runForFirst(FUSED.channelSums, { x: gradient }),
      };
    },
  });
  // The kernel of the input's gradient also computes transposed convolutions; here is the gradient of this kernel.
  tf.registerGradient({
    kernelName: FUSED.conv2dInputGrad,
    inputsToSave: ['dy', 'filter'],
    gradFunc: (gradient, saved, attrs) => {
      const [dy, filter] = [present(saved[0]), present(saved[1])];
      const x = gradient as tf.Tensor; // the kernel has one output
      return {
        dy: () => runForFirst(FUSED.conv2d, { x, filter }, attrs as tf.NamedAttrMap),
        filter: () => filterGradientOf(x, dy, filter.shape, attrs),
      };
    },
  });
}

/** Returns the gradient of a convolution's input, which is the transposed convolution of dy. */
export function inputGradientOf(
  dy: tf.Tensor,
  filter: tf.Tensor,
  inputShape: readonly number[],
  attrs: object,
): tf.Tensor {
  return runForFirst(FUSED.conv2dInputGrad, { dy, filter }, { ...attrs, inputShape: [...inputShape] });
}

function filterGradientOf(
  x: tf.Tensor,
  dy: tf.Tensor,
  filterShape: readonly number[],
  attrs: object,
): tf.Tensor {
  return runForFirst(FUSED.conv2dFilterGrad, { x, dy }, { ...attrs, filterShape: [...filterShape] });
}

/** Returns the kernel's attributes with their types; the kernel's check has validated the values. */
function attributesOf(attrs: Attributes): WindowAttributes & { readonly groups: number } {
  return attrs as unknown as WindowAttributes & { readonly groups: number };
}

function convolve(
  context: WasmContext,
  x: tf.TensorInfo,
  filter: tf.TensorInfo,
  bias: tf.TensorInfo | null | undefined,
  attrs: Attributes,
): tf.TensorInfo {
  const sizes = convSizes(x.shape, filter.shape, attributesOf(attrs));
  const { outputs, depth, area } = sizes;
  const out = context.backend.makeOutput(sizes.outShape, 'float32');
  if (bias != null) fillChannels(context, out, bias);
  const product = heapProduct(context);
  withColumns(context, sizes, (scratch) => {
    const [from, weights, to] = [x, filter, out].map((info) => offsetOf(context, info)) as [
      number,
      number,
      number,
    ];
    eachPart(sizes, (at) => {
      const columns = layOut(context, sizes, from + at.input, scratch);
      const operands = [weights + at.filter, depth, columns, area] as const;
      product(false, false, outputs, area, depth, ...operands, bias == null ? 0 : 1, to + at.output, area);
    });
  });
  return out;
}

function inputGradient(
  context: WasmContext,
  dy: tf.TensorInfo,
  filter: tf.TensorInfo,
  attrs: Attributes,
): tf.TensorInfo {
  const inputShape = attrs.inputShape as number[]; // the kernel's check has tested the attribute
  const sizes = convSizes(inputShape, filter.shape, attributesOf(attrs));
  const { outputs, depth, area, channels, numbers } = sizes;
  const dx = context.backend.makeOutput(inputShape, 'float32');
  const product = heapProduct(context);
  if (!sizes.isPlain) context.kernels.fill(offsetOf(context, dx), 0, sizeOf(inputShape));
  withColumns(context, sizes, (scratch) => {
    const [from, weights, to] = [dy, filter, dx].map((info) => offsetOf(context, info)) as [
      number,
      number,
      number,
    ];
    eachPart(sizes, (at) => {
      const columns = scratch ?? to + at.input;
      const operands = [weights + at.filter, depth, from + at.output, area] as const;
      product(true, false, depth, area, outputs, ...operands, 0, columns, area);
      if (scratch !== null) context.kernels.addColumns(to + at.input, scratch, channels, ...numbers);
    });
  });
  return dx;
}

function filterGradient(
  context: WasmContext,
  x: tf.TensorInfo,
  dy: tf.TensorInfo,
  attrs: Attributes,
): tf.TensorInfo {
  const filterShape = attrs.filterShape as number[]; // the kernel's check has tested the attribute
  const sizes = convSizes(x.shape, filterShape, attributesOf(attrs));
  const { outputs, depth, area } = sizes;
  const out = context.backend.makeOutput(filterShape, 'float32');
  const product = heapProduct(context);
  context.kernels.fill(offsetOf(context, out), 0, sizeOf(filterShape));
  withColumns(context, sizes, (scratch) => {
    const [from, gradient, to] = [x, dy, out].map((info) => offsetOf(context, info)) as [
      number,
      number,
      number,
    ];
    eachPart(sizes, (at) => {
      const columns = layOut(context, sizes, from + at.input, scratch);
      const operands = [gradient + at.output, area, columns, area] as const;
      product(false, true, outputs, depth, area, ...operands, 1, to + at.filter, depth);
    });
  });
  return out;
}

/**
 * Runs `work` with a buffer for one group's columns, or with null if the image needs no columns. In a dry run, `work` does not
 * run.
 */
function withColumns(context: WasmContext, sizes: ConvSizes, work: (scratch: number | null) => void): void {
  const { isPlain, depth, area } = sizes;
  if (!isPlain) withScratch(context, depth * area, (scratch) => work(offsetOf(context, scratch)));
  else if (context.hasValues) work(null);
}

/** Returns the byte offset of the columns: `input` if `scratch` is null; else `scratch`, to which the columns are written. */
function layOut(
  { kernels }: WasmContext,
  { channels, numbers }: ConvSizes,
  input: number,
  scratch: number | null,
): number {
  if (scratch === null) return input;
  kernels.columns(input, scratch, channels, ...numbers);
  return scratch;
}

/** Byte offsets of one group of one image in x, filter and result. */
interface Part {
  readonly input: number;
  readonly filter: number;
  readonly output: number;
}

function eachPart(sizes: ConvSizes, work: (at: Part) => void): void {
  const { images, groups, channels, outputs, depth, area, inputArea } = sizes;
  for (let image = 0; image < images; image++) {
    for (let group = 0; group < groups; group++) {
      const part = image * groups + group;
      work({
        input: 4 * part * channels * inputArea,
        filter: 4 * group * outputs * depth,
        output: 4 * part * outputs * area,
      });
    }
  }
}

/** Sets every pixel of a channel to the channel's bias. */
function fillChannels(context: WasmContext, out: tf.TensorInfo, bias: tf.TensorInfo): void {
  if (!context.hasValues) return;
  const [images = 0, channels = 0, ...area] = out.shape;
  const pixels = sizeOf(area);
  // The kernel `fill` takes the bits of a float32 value as an integer.
  const bits = context.backend.typedArrayFromHeap({ ...bias, dtype: 'int32' });
  const at = offsetOf(context, out);
  for (let plane = 0; plane < images * channels; plane++)
    context.kernels.fill(at + 4 * plane * pixels, bits[plane % channels] ?? 0, pixels);
}
