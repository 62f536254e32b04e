import { flag, type OptionKinds, pairFrom, requireOptions } from '../../config';
import { ShardlabError } from '../../core';
import type * as tf from '../../core/tf';
import {
  averagePool2d,
  type Pair,
  pairOf,
  requireHalfPadding,
  type Windows,
  windowNumbers,
} from '../../engine';
import { requireAtMost } from '../require-extents';

/** Returns the windows along an axis that has `length` pixels: axis 0 is vertical, axis 1 is horizontal. */
export type WindowsAlong = (length: number, axis: 0 | 1) => Windows;

/** Options of `AvgPool2d` (and, with single numbers, `AvgPool1d`), with torch's defaults. */
export interface AvgPoolOptions<Size = Pair> {
  /** Default: the size of the window. */
  readonly stride?: Size;
  readonly padding?: Size;
  /** Whether a last window that ends outside of the image is used. Default false. */
  readonly ceilMode?: boolean;
  /** Whether the zeros of the padding count in the mean. Default true. */
  readonly countIncludePad?: boolean;
}

const OPTIONS: OptionKinds<AvgPoolOptions> = {
  stride: pairFrom(1),
  padding: pairFrom(0),
  ceilMode: flag,
  countIncludePad: flag,
};

/** The size of pooling windows along one axis, and how they move, in pixels. */
interface AxisWindow {
  readonly size: number;
  readonly stride: number;
  readonly padding: number;
  readonly ceilMode: boolean;
  /** Whether the padding counts in the mean. */
  readonly countIncludePad: boolean;
}

/** Returns the windows of average pooling. Throws: SHAPE for padding of more than half of a window. */
export function poolingWindows(caller: string, kernelSize: Pair, options: AvgPoolOptions): WindowsAlong {
  requireOptions(caller, options, OPTIONS);
  const kernel = pairOf(kernelSize);
  const [strides, padding] = [pairOf(options.stride ?? kernel), pairOf(options.padding ?? 0)];
  requireHalfPadding(caller, kernel, padding);
  const { ceilMode = false, countIncludePad = true } = options;
  return (length, axis) =>
    windowsOf(length, {
      ...{ ceilMode, countIncludePad },
      size: kernel[axis],
      stride: strides[axis],
      padding: padding[axis],
    });
}

/** Code loops over the parts of each axis. */
const MOST_PARTS = 2 ** 16;

/**
 * Returns windows that divide images. A null size means that this size does not change. Window i covers [floor(i n / parts),
 * ceil((i + 1) n / parts)).
 */
export function adaptiveWindows(outputSize: number | readonly [number | null, number | null]): WindowsAlong {
  const size = typeof outputSize === 'number' ? [outputSize, outputSize] : outputSize;
  return (length, axis) => {
    const parts = size[axis] ?? length;
    requireAtMost('adaptive pooling', 'the output size', parts, MOST_PARTS);
    return Array.from({ length: parts }, (_, i) => {
      const begin = Math.floor((i * length) / parts);
      const end = Math.ceil(((i + 1) * length) / parts);
      return { begin, end, count: end - begin };
    });
  };
}

/** Returns the windows of average pooling along an axis. Source: torch's avg_pool2d. */
function windowsOf(length: number, window: AxisWindow): Windows {
  const { size, stride, padding, ceilMode, countIncludePad } = window;
  const numbers = windowNumbers([length, 1], [size, 1], {
    strides: [stride, 1],
    padding: [padding, padding, 0, 0],
    dilations: [1, 1],
    ceilMode,
  });
  return Array.from({ length: Math.max(0, numbers[10]) }, (_, i) => {
    const first = i * stride - padding;
    const padded = Math.min(first + size, length + padding);
    const [begin, end] = [Math.max(0, first), Math.min(padded, length)];
    return { begin, end, count: countIncludePad ? padded - first : end - begin };
  });
}

/** Returns the means of windows over images. Shapes: x [N, C, H, W] → [N, C, H', W']. Throws: SHAPE if no window fits. */
export function averaged(x: tf.Tensor, windowsAlong: WindowsAlong): tf.Tensor {
  const [, , height = 0, width = 0] = x.shape;
  const [rows, columns] = [windowsAlong(height, 0), windowsAlong(width, 1)];
  if (rows.length === 0 || columns.length === 0)
    throw new ShardlabError(
      'SHAPE',
      `average pooling: no window fits into [${x.shape}]; make the window smaller.`,
    );
  return averagePool2d(x, rows, columns);
}
