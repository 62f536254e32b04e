import { requireOptions } from '../../config';
import { ShardlabError } from '../../core';
import * as tf from '../../core/tf';
import {
  linear as affine,
  type ConvOptions,
  conv2d,
  layerNorm as normalized,
  type Pair,
  embedding as rowsOf,
} from '../../engine';
import { attention } from '../attention';
import { type AvgPoolOptions, adaptiveWindows, averaged, poolingWindows } from './averages';
import {
  CONV_1D,
  type Conv1dWindow,
  EMBEDDING,
  SCALED_DOT_PRODUCT,
  type ScaledDotProductOptions,
} from './function-options';
import { additiveMask, causalMask, maskedSoftmax } from './masks';

// Operations of layers as functions, with the names, arguments and defaults of torch.nn.functional.

/** Returns x Wᵀ + b. Shapes: x […, in], weight [out, in], bias [out] → […, out]. */
export function linear(x: tf.Tensor, weight: tf.Tensor, bias: tf.Tensor | null = null): tf.Tensor {
  if (bias !== null) return affine(x, weight, bias);
  const y = tf.matMul(tf.reshape(x, [-1, x.shape.at(-1) ?? 1]), weight, false, true);
  return tf.reshape(y, [...x.shape.slice(0, -1), weight.shape[0] ?? 1]);
}

/** Returns the weight's row for each id; the row `paddingIdx` gets no gradient. Shapes: ids int32 […] → […, dim]. */
export function embedding(
  ids: tf.Tensor,
  weight: tf.Tensor,
  options: { readonly paddingIdx?: number } = {},
): tf.Tensor {
  const { paddingIdx } = requireOptions('embedding', options, EMBEDDING);
  return rowsOf(weight, ids, paddingIdx);
}

/**
 * Normalizes x over the last dims, whose sizes are `normalizedShape`; then scales and shifts x. Shapes: weight and bias
 * normalizedShape. Throws: SHAPE if the last dims have other sizes.
 */
export function layerNorm(
  x: tf.Tensor,
  normalizedShape: number | readonly number[],
  weight: tf.Tensor | null = null,
  bias: tf.Tensor | null = null,
  eps = 1e-5,
): tf.Tensor {
  const shape = lastDims('layerNorm', x, normalizedShape);
  const factors = weight ?? tf.ones([...shape]);
  const added = bias ?? tf.zeros([...shape]);
  if (shape.length === 1) return normalized(x, factors, added, eps);
  const flat = (tensor: tf.Tensor): tf.Tensor => tf.reshape(tensor, [-1]);
  return tf.reshape(normalized(inRows(x, shape), flat(factors), flat(added), eps), x.shape);
}

/**
 * Divides the last dims, whose sizes are `normalizedShape`, by their root mean square; then scales them. Shapes: weight
 * normalizedShape. Throws: SHAPE if the last dims have other sizes.
 */
export function rmsNorm(
  x: tf.Tensor,
  normalizedShape: number | readonly number[],
  weight: tf.Tensor | null = null,
  eps = 2 ** -23,
): tf.Tensor {
  const shape = lastDims('rmsNorm', x, normalizedShape);
  const rows = shape.length === 1 ? x : inRows(x, shape);
  const meanSquare = tf.mean(tf.square(rows), -1, true);
  const scaled = tf.mul(rows, tf.rsqrt(tf.add(meanSquare, eps)));
  const y = shape.length === 1 ? scaled : tf.reshape(scaled, x.shape);
  return weight === null ? y : tf.mul(y, weight);
}

function lastDims(
  caller: string,
  x: tf.Tensor,
  normalizedShape: number | readonly number[],
): readonly number[] {
  const shape = [normalizedShape].flat();
  if (x.shape.slice(-shape.length).join() === shape.join()) return shape;
  throw new ShardlabError('SHAPE', `${caller}: x is [${x.shape}], but its last dims must be [${shape}].`);
}

/** Reshapes x to two dims. A row has the elements of the last dims, whose sizes are `shape`. */
function inRows(x: tf.Tensor, shape: readonly number[]): tf.Tensor {
  return tf.reshape(x, [-1, shape.reduce((product, extent) => product * extent, 1)]);
}

/** Convolves sequences. Shapes: x [N, C, L], weight [outputs, C / groups, size], bias [outputs] → [N, outputs, L']. */
export function conv1d(
  x: tf.Tensor,
  weight: tf.Tensor,
  bias: tf.Tensor | null = null,
  window: Conv1dWindow = {},
): tf.Tensor {
  const { stride = 1, padding = 0, dilation = 1, groups = 1 } = requireOptions('conv1d', window, CONV_1D);
  const options: ConvOptions = {
    stride: [1, stride],
    padding: typeof padding === 'number' ? [0, padding] : padding,
    dilation: [1, dilation],
    groups,
  };
  return tf.squeeze(conv2d(tf.expandDims(x, 2), tf.expandDims(weight, 2), bias, options), [2]);
}

/** Returns the mean of each window. Shapes: x [N, C, H, W] → [N, C, H', W']. */
export function avgPool2d(x: tf.Tensor, kernelSize: Pair, options: AvgPoolOptions = {}): tf.Tensor {
  return averaged(x, poolingWindows('avgPool2d', kernelSize, options));
}

/**
 * Returns means over windows that divide the image into `outputSize` rows and columns; a null size means that this size does
 * not change.
 */
export function adaptiveAvgPool2d(
  x: tf.Tensor,
  outputSize: number | readonly [number | null, number | null],
): tf.Tensor {
  return averaged(x, adaptiveWindows(outputSize));
}

/**
 * Returns softmax(scale q kᵀ + mask) v of every head; without a mask, no matrix of weights is stored. Shapes: query [N, heads,
 * L, E], key and value [N, heads, S, E] → [N, heads, L, E]. Throws: SHAPE if the shapes do not match, or if both a
 * mask and isCausal are given.
 */
export function scaledDotProductAttention(
  query: tf.Tensor,
  key: tf.Tensor,
  value: tf.Tensor,
  options: ScaledDotProductOptions = {},
): tf.Tensor {
  const caller = 'scaledDotProductAttention';
  const { attnMask, isCausal = false, scale } = requireOptions(caller, options, SCALED_DOT_PRODUCT);
  const [queries = 0, dim = 1] = query.shape.slice(-2);
  const keys = key.shape.at(-2) ?? 0;
  const fits = [query, key, value].every(({ rank }) => rank === 4) && key.shape.at(-1) === dim;
  if (!fits || value.shape.at(-2) !== keys || (isCausal && attnMask !== undefined)) {
    throw new ShardlabError(
      'SHAPE',
      `scaledDotProductAttention: query [${query.shape}], key [${key.shape}] and value [${value.shape}] must be [N, heads, L, E] ` +
        'with equal N, heads and E; give either attnMask or isCausal.',
    );
  }
  const isSameSize = value.shape.join() === key.shape.join();
  const hasElements = query.size > 0 && key.size > 0;
  if (attnMask === undefined && hasElements && isSameSize && (!isCausal || queries === keys)) {
    const [q, k, v] = [query, key, value].map((x) => tf.transpose(x, [0, 2, 1, 3])) as Three;
    return tf.transpose(attention(q, k, v, { causal: isCausal, kind: 'flash', scale }), [0, 2, 1, 3]);
  }
  const scores = tf.mul(tf.matMul(query, key, false, true), scale ?? 1 / Math.sqrt(dim));
  const excluded = attnMask?.dtype === 'bool' ? tf.logicalNot(attnMask) : attnMask;
  const mask = excluded === undefined ? null : additiveMask(excluded);
  const added = isCausal ? causalMask(queries, keys) : mask;
  return tf.matMul(maskedSoftmax(scores, added), value);
}

type Three = [tf.Tensor, tf.Tensor, tf.Tensor];
