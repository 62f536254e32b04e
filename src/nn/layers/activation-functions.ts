import { requireOptions } from '../../config';
import { rootOf } from '../../core';
import * as tf from '../../core/tf';
import { gelu as geluOf, silu as siluOf } from '../../engine';
import { COSINE, GELU, GUMBEL_SOFTMAX, type GumbelSoftmaxOptions, NORMALIZE } from './function-options';

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
  const isPositive = tf.greater(x.detach(), 0);
  const curved = tf.mul(tf.expm1(tf.where(isPositive, tf.zerosLike(x), x)), alpha);
  return tf.where(isPositive, x, curved);
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
  return tf.add(tf.maximum(x, 0), tf.log1p(tf.exp(tf.neg(tf.abs(x)))));
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

/**
 * Returns samples of the categorical distributions with these logits, through which gradients flow: softmax((logits + g) / tau) with
 * Gumbel noise g. Source: Jang et al. 2017; torch.nn.functional.gumbel_softmax.
 */
export function gumbelSoftmax(logits: tf.Tensor, options: GumbelSoftmaxOptions = {}): tf.Tensor {
  const { tau = 1, hard = false, dim = -1, seed } = requireOptions('gumbelSoftmax', options, GUMBEL_SOFTMAX);
  const uniform = tf.randomUniform(logits.shape, 2 ** -24, 1, 'float32', seed);
  const noise = tf.neg(tf.log(tf.neg(tf.log(uniform))));
  const soft = softmax(tf.div(tf.add(logits, noise), tau), dim);
  if (!hard) return soft;
  const largest = tf.max(soft.detach(), dim, true);
  const chosen = tf.cast(tf.equal(soft.detach(), largest), 'float32');
  return tf.add(tf.sub(chosen, soft.detach()), soft);
}

/** Divides x by its p-norm along `dim`; a norm below `eps` counts as `eps`. Source: torch.nn.functional.normalize. */
export function normalize(
  x: tf.Tensor,
  options: { readonly p?: number; readonly dim?: number; readonly eps?: number } = {},
): tf.Tensor {
  const { p = 2, dim = 1, eps = 1e-12 } = requireOptions('normalize', options, NORMALIZE);
  const sum = tf.sum(tf.pow(tf.abs(x), p), dim, true);
  return tf.div(
    x,
    tf.maximum(
      rootOf(sum, (sums) => tf.pow(sums, 1 / p)),
      eps,
    ),
  );
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
