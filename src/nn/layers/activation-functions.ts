import { gelu as geluOf, silu as siluOf } from '../../backend/ops';
import { requireOptions } from '../../config/call-options';
import * as tf from '../../core/tf';
import { COSINE, GELU, NORMALIZE } from './function-options';

// Activations as functions, with the names, arguments and defaults of torch.nn.functional.

/** Returns max(x, 0). */
export function relu(x: tf.Tensor): tf.Tensor {
  return tf.relu(x);
}

/** Returns min(max(x, 0), 6). */
export function relu6(x: tf.Tensor): tf.Tensor {
  return tf.relu6(x);
}

/** Returns x for positive x, else negativeSlope · x. */
export function leakyRelu(x: tf.Tensor, negativeSlope = 0.01): tf.Tensor {
  return tf.leakyRelu(x, negativeSlope);
}

/** Returns x for positive x, else alpha (e^x − 1). */
export function elu(x: tf.Tensor, alpha = 1): tf.Tensor {
  return tf.add(tf.relu(x), tf.mul(tf.expm1(tf.minimum(x, 0)), alpha));
}

/** Returns GELU(x): exact by default, or its tanh approximation. Source: Hendrycks and Gimpel 2016. */
export function gelu(x: tf.Tensor, options: { readonly approximate?: 'none' | 'tanh' } = {}): tf.Tensor {
  const { approximate = 'none' } = requireOptions('gelu', options, GELU);
  return geluOf(x, approximate);
}

/** Returns x · sigmoid(x). */
export function silu(x: tf.Tensor): tf.Tensor {
  return siluOf(x);
}

/** Returns log(1 + e^x), without overflow for large x. */
export function softplus(x: tf.Tensor): tf.Tensor {
  return tf.add(tf.relu(x), tf.log1p(tf.exp(tf.neg(tf.abs(x)))));
}

/** Returns x · tanh(softplus(x)). */
export function mish(x: tf.Tensor): tf.Tensor {
  return tf.mul(x, tf.tanh(softplus(x)));
}

/** Returns tanh(x). */
export function tanh(x: tf.Tensor): tf.Tensor {
  return tf.tanh(x);
}

/** Returns 1 / (1 + e^−x). */
export function sigmoid(x: tf.Tensor): tf.Tensor {
  return tf.sigmoid(x);
}

/** Returns log(1 / (1 + e^−x)). */
export function logSigmoid(x: tf.Tensor): tf.Tensor {
  return tf.neg(softplus(tf.neg(x)));
}

/** Returns the softmax along `dim`, by default the last dim. */
export function softmax(x: tf.Tensor, dim = -1): tf.Tensor {
  return alongLast(x, dim, (rows) => tf.softmax(rows));
}

/** Returns the logarithm of the softmax along `dim`, by default the last dim. */
export function logSoftmax(x: tf.Tensor, dim = -1): tf.Tensor {
  return alongLast(x, dim, (rows) => tf.logSoftmax(rows));
}

/** Divides x by its p-norm along `dim`; a norm below `eps` counts as `eps`. Source: torch.nn.functional.normalize. */
export function normalize(
  x: tf.Tensor,
  options: { readonly p?: number; readonly dim?: number; readonly eps?: number } = {},
): tf.Tensor {
  const { p = 2, dim = 1, eps = 1e-12 } = requireOptions('normalize', options, NORMALIZE);
  const sum = tf.sum(tf.pow(tf.abs(x), p), dim, true);
  return tf.div(x, tf.maximum(tf.pow(sum, 1 / p), eps));
}

/**
 * Returns the cosine of the angle between x and y along `dim`; a norm below `eps` counts as `eps`.
 * Source: torch.nn.functional.cosine_similarity.
 */
export function cosineSimilarity(
  x: tf.Tensor,
  y: tf.Tensor,
  options: { readonly dim?: number; readonly eps?: number } = {},
): tf.Tensor {
  const { dim = 1, eps = 1e-8 } = requireOptions('cosineSimilarity', options, COSINE);
  return tf.sum(tf.mul(normalize(x, { dim, eps }), normalize(y, { dim, eps })), dim);
}

/** Runs `work` on x with `dim` moved to the end, and moves the dim back; tfjs computes softmaxes only along the last dim. */
export function alongLast(x: tf.Tensor, dim: number, work: (rows: tf.Tensor) => tf.Tensor): tf.Tensor {
  const at = dim < 0 ? x.rank + dim : dim;
  if (at === x.rank - 1) return work(x);
  const axes = x.shape.map((_, axis) => axis);
  const moved = [...axes.slice(0, at), ...axes.slice(at + 1), at];
  const back = axes.map((axis) => moved.indexOf(axis));
  return tf.transpose(work(tf.transpose(x, moved)), back);
}
