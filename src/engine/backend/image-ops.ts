import { count, either, flag, type OptionKinds, oneOf, pairFrom, requireOptions } from '../../config';
import { ConfigError, ShardlabError, shown } from '../../core';
import * as tf from '../../core/tf';
import type { Windows } from './fused/average-pool';
import { inputGradientOf } from './fused/convolution';
import { FUSED, runForFirst } from './fused/fused-kernel';
import type { Pair, WindowAttributes } from './window-sizes';

// Operations on images [N, C, H, W]; they are differentiable like tfjs's operations. See [Note: convolutions].

/** Options of `conv2d`, with torch's defaults: stride 1, padding 0, dilation 1, groups 1. */
export interface ConvOptions {
  readonly stride?: Pair;
  /** Rows and columns of zeros on each side. 'valid' adds none; 'same' adds so many that the image's size does not change. */
  readonly padding?: Pair | 'same' | 'valid';
  readonly dilation?: Pair;
  readonly groups?: number;
}

/** The kinds of options of `conv2d`. */
export const CONVOLUTION: OptionKinds<ConvOptions> = {
  stride: pairFrom(1),
  padding: either(pairFrom(0), oneOf('same', 'valid')),
  dilation: pairFrom(1),
  groups: count,
};

/**
 * Convolves images. Shapes: x [N, C, H, W], weight [outputs, C / groups, height, width], bias [outputs] → [N, outputs, H',
 * W']. Source: torch.nn.functional.conv2d. Throws: SHAPE when the shapes do not match.
 */
export function conv2d(
  x: tf.Tensor,
  weight: tf.Tensor,
  bias: tf.Tensor | null = null,
  options: ConvOptions = {},
): tf.Tensor {
  const attrs = convAttributes('conv2d', weight, requireOptions('conv2d', options, CONVOLUTION));
  return runForFirst(
    FUSED.conv2d,
    { x, filter: weight, ...(bias === null ? {} : { bias }) },
    attrs as unknown as tf.NamedAttrMap,
  );
}

/** Options of `convTranspose2d`, with torch's defaults. */
export interface ConvTransposeOptions {
  readonly stride?: Pair;
  readonly padding?: Pair;
  /**
   * Rows and columns that are added to the result. A strided convolution maps images of several sizes to the size of x; this
   * setting chooses one of these sizes for the result. Default 0.
   */
  readonly outputPadding?: Pair;
  readonly dilation?: Pair;
  readonly groups?: number;
}

/** The kinds of options of `convTranspose2d`. */
export const TRANSPOSED_CONVOLUTION: OptionKinds<ConvTransposeOptions> = {
  stride: pairFrom(1),
  padding: pairFrom(0),
  outputPadding: pairFrom(0),
  dilation: pairFrom(1),
  groups: count,
};

/**
 * Computes the transposed convolution, which is the gradient of a convolution's input. Shapes: x [N, C, H, W], weight
 * [C, outputs / groups, height, width] → [N, outputs, H', W']. Source: torch.nn.functional.conv_transpose2d.
 * Throws: SHAPE when the shapes do not match.
 */
export function convTranspose2d(
  x: tf.Tensor,
  weight: tf.Tensor,
  bias: tf.Tensor | null = null,
  options: ConvTransposeOptions = {},
): tf.Tensor {
  const { outputPadding = 0, ...convolution } = requireOptions(
    'convTranspose2d',
    options,
    TRANSPOSED_CONVOLUTION,
  );
  const attrs = convAttributes('convTranspose2d', weight, convolution);
  const { strides, padding, dilations, groups } = attrs;
  const extra = pairOf(outputPadding);
  if (extra.some((added, i) => added >= (strides[i] ?? 1))) {
    throw new ShardlabError(
      'SHAPE',
      `convTranspose2d: outputPadding [${extra}] must be smaller than the stride [${strides}].`,
    );
  }
  const lengthOf = (axis: 0 | 1): number =>
    ((x.shape[2 + axis] ?? 0) - 1) * strides[axis] -
    (padding[2 * axis] ?? 0) -
    (padding[2 * axis + 1] ?? 0) +
    dilations[axis] * ((weight.shape[2 + axis] ?? 1) - 1) +
    extra[axis] +
    1;
  const outputs = (weight.shape[1] ?? 0) * groups;
  const shape = [x.shape[0] ?? 0, outputs, lengthOf(0), lengthOf(1)];
  const y = inputGradientOf(x, weight, shape, attrs);
  return bias === null ? y : tf.add(y, tf.reshape(bias, [1, outputs, 1, 1]));
}

/** Options of `maxPool2d`, with torch's defaults. */
export interface MaxPoolOptions {
  /** Default: the size of the window. */
  readonly stride?: Pair | undefined;
  readonly padding?: Pair;
  readonly dilation?: Pair;
  /** Whether the last window counts if it begins inside of the padded image and ends outside of it. Default false. */
  readonly ceilMode?: boolean;
}

/** The kinds of options of `maxPool2d`. */
export const MAX_POOL: OptionKinds<MaxPoolOptions> = {
  stride: pairFrom(1),
  padding: pairFrom(0),
  dilation: pairFrom(1),
  ceilMode: flag,
};

/**
 * Returns the largest value of each window. Shapes: x [N, C, H, W] → [N, C, H', W'].
 * Source: torch.nn.functional.max_pool2d. Throws: SHAPE when the window does not fit.
 */
export function maxPool2d(x: tf.Tensor, kernelSize: Pair, options: MaxPoolOptions = {}): tf.Tensor {
  requireOptions('maxPool2d', options, MAX_POOL);
  const kernel = pairOf(kernelSize);
  const padding = pairOf(options.padding ?? 0);
  requireHalfPadding('maxPool2d', kernel, padding);
  const attrs = {
    strides: pairOf(options.stride ?? kernelSize),
    padding: [padding[0], padding[0], padding[1], padding[1]],
    dilations: pairOf(options.dilation ?? 1),
    ceilMode: options.ceilMode ?? false,
  };
  return runForFirst(FUSED.maxPool2d, { x }, { ...attrs, kernel, inputShape: x.shape });
}

/** Returns the mean of each window. Shapes: x [N, C, H, W] → [N, C, rows, columns]. */
export function averagePool2d(x: tf.Tensor, rows: Windows, columns: Windows): tf.Tensor {
  const attrs = { inputShape: x.shape, rows, columns };
  return runForFirst(FUSED.averagePool2d, { x }, attrs as unknown as tf.NamedAttrMap); // lists of objects
}

/** Throws SHAPE if the padding is more than half of a pooling window. Source: torch's error 'pad should be at most half'. */
export function requireHalfPadding(
  operation: string,
  kernel: readonly number[],
  padding: readonly number[],
): void {
  if (padding.every((amount, axis) => 2 * amount <= (kernel[axis] ?? 0))) return;
  throw new ShardlabError(
    'SHAPE',
    `${operation}: padding [${padding}] is more than half of the window [${kernel}]; give less padding.`,
  );
}

/** Returns both numbers of a pair. */
export function pairOf(pair: Pair): [number, number] {
  if (typeof pair === 'number') return [pair, pair];
  if (Array.isArray(pair) && pair.length === 2) return [...pair] as [number, number]; // Array.isArray loses the type
  throw new ConfigError(
    `a size of images or windows is ${shown(pair)}; give a number or a pair, such as 3 or [3, 1]`,
  );
}

function convAttributes(
  operation: string,
  { shape }: tf.Tensor,
  { stride = 1, padding = 0, dilation = 1, groups = 1 }: ConvOptions,
): WindowAttributes & { readonly groups: number } {
  const [strides, dilations] = [pairOf(stride), pairOf(dilation)];
  const shared = { strides, dilations, groups };
  if (padding !== 'same') {
    const [y, x] = pairOf(padding === 'valid' ? 0 : padding);
    return { ...shared, padding: [y, y, x, x] };
  }
  if (strides.some((step) => step !== 1))
    throw new ShardlabError('SHAPE', `${operation}: padding 'same' needs stride 1, not [${strides}].`);
  const sides = dilations.flatMap((step, axis) => {
    const total = step * ((shape[2 + axis] ?? 1) - 1);
    return [Math.floor(total / 2), Math.ceil(total / 2)];
  });
  return { ...shared, padding: sides as [number, number, number, number] }; // two numbers (before, after) per axis
}
