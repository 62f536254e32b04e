import * as tf from '../../../core/tf';
import {
  type Inputs,
  type Kernel,
  offsetOf,
  present,
  replaceKernel,
  sizeOf,
  type WasmContext,
} from '../wasm-context';

/*
 * [Note: pooling] tfjs's pools drop NaN, and its gradients of averages count padding. Here each window is a list of pixels inside
 * of the image, and the channels of a pixel, which are neighbours on the heap, are compared or added at once.
 */

/** A pool over images or volumes [batch, ...extents, channels]; an image has the depth 1. */
interface Pool {
  readonly batch: number;
  readonly channels: number;
  readonly outShape: number[];
  readonly axes: readonly Axis[];
}

/** The windows along one axis. */
interface Axis {
  readonly length: number;
  readonly outLength: number;
  readonly size: number;
  readonly stride: number;
  readonly before: number;
}

/** Replaces tfjs's pools and their gradients. See [Note: pooling]. */
export function registerPools(context: WasmContext): void {
  for (const suffix of ['', '3D']) {
    replaceKernel(`MaxPool${suffix}`, (original) => pool(context, suffix, largestOf, original));
    replaceKernel(`AvgPool${suffix}`, (original) => pool(context, suffix, meanOf, original));
    replaceKernel(`MaxPool${suffix}Grad`, () => poolGradient(context, suffix, toLargest));
    replaceKernel(`AvgPool${suffix}Grad`, () => poolGradient(context, suffix, toAll));
  }
}

/** Computes the channels of a window's result; offsets are bytes on the heap. */
type Combine = (context: WasmContext, pixels: readonly number[], out: number, channels: number) => void;

function pool(context: WasmContext, suffix: string, combine: Combine, original: Kernel | null): Kernel {
  return ({ x }, attrs) => {
    // tfjs's kernels are faster, and right for finite numbers.
    if (original !== null && isFiniteIn(context, present(x))) return original({ x: present(x) }, attrs);
    const sizes = poolOf(present(x).shape, attrs, suffix);
    const out = context.backend.makeOutput(sizes.outShape, 'float32');
    if (!context.hasValues) return out;
    const [from, to] = [offsetOf(context, present(x)), offsetOf(context, out)];
    const bytes = 4 * sizes.channels;
    forEachWindow(sizes, (pixels, position) => {
      const places = pixels.map((pixel) => from + bytes * pixel);
      combine(context, places, to + bytes * position, sizes.channels);
    });
    return out;
  };
}

function isFiniteIn(context: WasmContext, x: tf.TensorInfo): boolean {
  return (
    context.hasValues && Number.isFinite(context.kernels.sumOfSquares(offsetOf(context, x), sizeOf(x.shape)))
  );
}

function largestOf({ kernels }: WasmContext, pixels: readonly number[], out: number, channels: number): void {
  kernels.fill(out, LEAST, channels);
  for (const pixel of pixels) kernels.maximum(out, 1, pixel, 1, out, channels);
}

/** The bits of -Infinity. */
const LEAST = new Int32Array(Float32Array.of(-Infinity).buffer)[0] ?? 0;

function meanOf({ kernels }: WasmContext, pixels: readonly number[], out: number, channels: number): void {
  kernels.fill(out, 0, channels);
  for (const pixel of pixels) kernels.addScaled(out, pixel, 1, channels);
  kernels.scale(out, 1 / pixels.length, channels);
}

/** Adds the gradient of a window to its pixels. Numbers are indices of the pixels' first channels. */
type Spread = (
  values: Float32Array,
  dy: Float32Array,
  dx: Float32Array,
  pixels: readonly number[],
  position: number,
  channels: number,
) => void;

function poolGradient({ backend, hasValues }: WasmContext, suffix: string, spread: Spread): Kernel {
  return ({ dy, input }: Inputs, attrs) => {
    const x = present(input);
    const sizes = poolOf(x.shape, attrs, suffix);
    const dx = backend.makeOutput(x.shape, 'float32');
    if (!hasValues) return dx;
    const [values, gradient, out] = [x, present(dy), dx].map((info) => backend.typedArrayFromHeap(info)) as [
      Float32Array,
      Float32Array,
      Float32Array,
    ];
    out.fill(0);
    forEachWindow(sizes, (pixels, position) => {
      const places = pixels.map((pixel) => pixel * sizes.channels);
      spread(values, gradient, out, places, position * sizes.channels, sizes.channels);
    });
    return dx;
  };
}

/** The first largest pixel gets the gradient; NaN is the largest. */
const toLargest: Spread = (values, dy, dx, pixels, position, channels) => {
  for (let channel = 0; channel < channels; channel++) {
    let best = pixels[0] ?? 0;
    for (const pixel of pixels) {
      const [value, most] = [values[pixel + channel] as number, values[best + channel] as number];
      if (value > most || (Number.isNaN(value) && !Number.isNaN(most))) best = pixel;
    }
    dx[best + channel] = (dx[best + channel] as number) + (dy[position + channel] as number);
  }
};

const toAll: Spread = (_, dy, dx, pixels, position, channels) => {
  for (const pixel of pixels) {
    for (let channel = 0; channel < channels; channel++)
      dx[pixel + channel] =
        (dx[pixel + channel] as number) + (dy[position + channel] as number) / pixels.length;
  }
};

function poolOf(shape: readonly number[], attrs: Readonly<Record<string, unknown>>, suffix: string): Pool {
  const { filterSize, strides, pad, dimRoundingMode } = attrs;
  // The kernel's check has validated these attributes.
  const sizesAndPadding = [filterSize, strides, 1, pad, dimRoundingMode] as never as [
    number,
    number,
    1,
    'same',
    'floor',
  ];
  const { computePool2DInfo, computePool3DInfo } = tf.backend_util;
  if (suffix === '') {
    const info = computePool2DInfo(shape as [number, number, number, number], ...sizesAndPadding);
    const { padInfo } = info;
    const axes = [
      { length: 1, outLength: 1, size: 1, stride: 1, before: 0 },
      axisOf(info.inHeight, info.outHeight, info.filterHeight, info.strideHeight, padInfo.top),
      axisOf(info.inWidth, info.outWidth, info.filterWidth, info.strideWidth, padInfo.left),
    ];
    return { batch: info.batchSize, channels: info.inChannels, outShape: info.outShape, axes };
  }
  const info = computePool3DInfo(shape as [number, number, number, number, number], ...sizesAndPadding);
  const { padInfo } = info;
  const axes = [
    axisOf(info.inDepth, info.outDepth, info.filterDepth, info.strideDepth, padInfo.front),
    axisOf(info.inHeight, info.outHeight, info.filterHeight, info.strideHeight, padInfo.top),
    axisOf(info.inWidth, info.outWidth, info.filterWidth, info.strideWidth, padInfo.left),
  ];
  return { batch: info.batchSize, channels: info.inChannels, outShape: info.outShape, axes };
}

function axisOf(length: number, outLength: number, size: number, stride: number, before: number): Axis {
  return { length, outLength, size, stride, before };
}

/** Calls `visit` for each window with the indices of its pixels and of its result's pixel. */
function forEachWindow(
  { batch, axes }: Pool,
  visit: (pixels: readonly number[], position: number) => void,
): void {
  const [depths, rows, columns] = axes.map(placesOf) as [number[][], number[][], number[][]];
  const [depth, height, width] = axes.map(({ length }) => length) as [number, number, number];
  let position = 0;
  for (let image = 0; image < batch; image++) {
    for (const some of depths) {
      for (const lines of rows) {
        for (const places of columns) {
          const pixels: number[] = [];
          for (const z of some)
            for (const y of lines)
              for (const x of places) pixels.push(((image * depth + z) * height + y) * width + x);
          visit(pixels, position++);
        }
      }
    }
  }
}

/** Returns the places inside of the image of each window along an axis. */
function placesOf({ length, outLength, size, stride, before }: Axis): number[][] {
  return Array.from({ length: outLength }, (_, out) =>
    Array.from({ length: size }, (_, tap) => out * stride - before + tap).filter(
      (place) => place >= 0 && place < length,
    ),
  );
}
