import * as tf from '../../../core/tf';
import {
  type Attributes,
  type Kernel,
  present,
  replaceKernel,
  sizeOf,
  type WasmContext,
} from '../wasm-context';

/**
 * Replaces kernels of images that are wrong in tfjs: dilation2d, whose maximum begins at a positive number, and its gradients; and
 * transform, which takes the fill mode 'reflect' for 'wrap'.
 */
export function registerImageKernels(context: WasmContext): void {
  replaceKernel('Dilation2D', () => dilation(context, null));
  replaceKernel('Dilation2DBackpropInput', () => dilation(context, 'x'));
  replaceKernel('Dilation2DBackpropFilter', () => dilation(context, 'filter'));
  replaceKernel('Transform', () => transform(context));
}

type Shape4 = [number, number, number, number];

/**
 * Returns the kernel of a grey dilation, max over taps of (x + filter), or of its gradient: the first largest tap gets it.
 * Source: tf.nn.dilation2d.
 */
function dilation({ backend, hasValues }: WasmContext, target: 'x' | 'filter' | null): Kernel {
  return ({ x, filter, dy }, attrs) => {
    const [input, kernel] = [present(x), present(filter)];
    const info = tf.backend_util.computeDilation2DInfo(
      input.shape as Shape4, // the kernel's check has tested the ranks and attributes
      kernel.shape as [number, number, number],
      attrs.strides as number,
      attrs.pad as 'same',
      'NHWC',
      attrs.dilations as number,
    );
    const made = target === null ? info.outShape : target === 'x' ? input.shape : kernel.shape;
    const out = backend.makeOutput(made, input.dtype);
    if (!hasValues) return out;
    const values = (info: tf.TensorInfo | undefined) =>
      info === undefined ? [] : backend.typedArrayFromHeap(info);
    const [from, by, gradient, to] = [
      values(input),
      values(kernel),
      values(dy),
      backend.typedArrayFromHeap(out).fill(0),
    ];
    const channels = info.inChannels;
    let position = 0;
    forEachWindow(info, (pixels, taps) => {
      for (let channel = 0; channel < channels; channel++) {
        let best = -1;
        let most = Number.NEGATIVE_INFINITY;
        for (const [i, pixel] of pixels.entries()) {
          const value =
            Number(from[pixel * channels + channel]) + Number(by[(taps[i] ?? 0) * channels + channel]);
          if (best >= 0 && !(value > most || (Number.isNaN(value) && !Number.isNaN(most)))) continue;
          best = i;
          most = value;
        }
        if (target === null) to[position] = most;
        else if (best >= 0) {
          const place = ((target === 'x' ? pixels : taps)[best] ?? 0) * channels + channel;
          to[place] = Number(to[place]) + Number(gradient[position]);
        }
        position++;
      }
    });
    return out;
  };
}

type ConvInfo = ReturnType<typeof tf.backend_util.computeDilation2DInfo>;

/** Calls `visit` for each window with the pixels of x and the taps of the filter that are inside of the image. */
function forEachWindow(
  info: ConvInfo,
  visit: (pixels: readonly number[], taps: readonly number[]) => void,
): void {
  for (let image = 0; image < info.batchSize; image++) {
    for (let y = 0; y < info.outHeight; y++) {
      for (let x = 0; x < info.outWidth; x++) {
        const [pixels, taps]: [number[], number[]] = [[], []];
        for (let tap = 0; tap < info.filterHeight * info.filterWidth; tap++) {
          const [down, right] = [Math.floor(tap / info.filterWidth), tap % info.filterWidth];
          const row = y * info.strideHeight - info.padInfo.top + down * info.dilationHeight;
          const column = x * info.strideWidth - info.padInfo.left + right * info.dilationWidth;
          if (row < 0 || row >= info.inHeight || column < 0 || column >= info.inWidth) continue;
          pixels.push((image * info.inHeight + row) * info.inWidth + column);
          taps.push(tap);
        }
        visit(pixels, taps);
      }
    }
  }
}

/** Returns the kernel of a projective transform of images. Source: TensorFlow's ImageProjectiveTransformV3. */
function transform({ backend, hasValues }: WasmContext): Kernel {
  return ({ image, transforms }, attrs: Attributes) => {
    const [batch = 0, height = 0, width = 0, channels = 0] = present(image).shape;
    const [outHeight = height, outWidth = width] = (attrs.outputShape ?? []) as number[];
    const out = backend.makeOutput([batch, outHeight, outWidth, channels], present(image).dtype);
    if (!hasValues) return out;
    const [from, numbers] = [
      backend.typedArrayFromHeap(present(image)),
      backend.typedArrayFromHeap(present(transforms)),
    ];
    const to = backend.typedArrayFromHeap(out);
    const fill = Number(attrs.fillValue ?? 0);
    const place = PLACES[String(attrs.fillMode)] ?? ((at: number) => at);
    const isNearest = attrs.interpolation === 'nearest';
    for (let i = 0; i < sizeOf(out.shape); i++) {
      const channel = i % channels;
      const [x, y] = [Math.floor(i / channels) % outWidth, Math.floor(i / channels / outWidth) % outHeight];
      const image = Math.floor(i / channels / outWidth / outHeight);
      const start = present(transforms).shape[0] === 1 ? 0 : 8 * image;
      const [a = 0, b = 0, c = 0, d = 0, e = 0, f = 0, g = 0, h = 0] = numbers.subarray(start, start + 8);
      const depth = g * x + h * y + 1;
      const pixel = (row: number, column: number): number =>
        row >= 0 && row < height && column >= 0 && column < width
          ? Number(from[((image * height + row) * width + column) * channels + channel])
          : fill;
      const row = place((d * x + e * y + f) / depth, height);
      const column = place((a * x + b * y + c) / depth, width);
      if (depth === 0) to[i] = fill;
      else to[i] = isNearest ? pixel(rounded(row), rounded(column)) : between(row, column, pixel);
    }
    return out;
  };
}

/** Rounds halves away from 0, as C does. */
function rounded(value: number): number {
  return Math.sign(value) * Math.round(Math.abs(value));
}

function between(row: number, column: number, pixel: (row: number, column: number) => number): number {
  const [top, left] = [Math.floor(row), Math.floor(column)];
  const across = (line: number): number =>
    (left + 1 - column) * pixel(line, left) + (column - left) * pixel(line, left + 1);
  return (top + 1 - row) * across(top) + (row - top) * across(top + 1);
}

/** The place inside of an axis of `length` that stands for a place outside, by the fill mode. */
const PLACES: Readonly<Record<string, (at: number, length: number) => number>> = {
  nearest: inside,
  reflect: (at, length) => {
    if (length <= 1) return 0;
    const period = 2 * length;
    if (at < 0) {
      const near = at < period ? period * Math.trunc(-at / period) + at : at;
      return inside(near < -length ? near + period : -near - 1, length);
    }
    const near = at > length - 1 ? at - period * Math.trunc(at / period) : at;
    return inside(near >= length ? period - near - 1 : near, length);
  },
  wrap: (at, length) => {
    if (length <= 1) return 0;
    const step = length - 1;
    if (at < 0) return inside(at + length * (Math.trunc(-at / step) + 1), length);
    return inside(at > step ? at - length * Math.trunc(at / step) : at, length);
  },
};

function inside(at: number, length: number): number {
  return Math.min(length - 1, Math.max(0, at));
}
