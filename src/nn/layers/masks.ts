import { ShardlabError } from '../../core';
import * as tf from '../../core/tf';

/** The number that is added to excluded scores, so that their weight after the softmax is 0. */
const EXCLUDED = -1e9;

/** Returns a mask to add to scores: true becomes a very low number, false becomes 0, and numbers do not change. */
export function additiveMask(mask: tf.Tensor, shape: readonly number[] = mask.shape): tf.Tensor {
  if (mask.size !== shape.reduce((product, extent) => product * extent, 1))
    throw new ShardlabError(
      'SHAPE',
      `attention: a mask [${mask.shape}] does not fit; its shape must be [${shape}].`,
    );
  const numbers = mask.dtype === 'bool' ? tf.mul(tf.cast(mask, 'float32'), EXCLUDED) : mask;
  // The lowest number is finite, because minus infinity would give NaN for a query without any key.
  return tf.reshape(tf.maximum(numbers, EXCLUDED), [...shape]);
}

/**
 * Returns softmax(scores + mask) along the last axis, where a mask excludes keys by a very low number; a query for which all keys are
 * excluded has the weights 0, as in torch. The mask's shape broadcasts.
 */
export function maskedSoftmax(scores: tf.Tensor, mask: tf.Tensor | null): tf.Tensor {
  if (mask === null) return tf.softmax(scores);
  const hasKeys = tf.any(tf.greater(mask.detach(), EXCLUDED / 2), -1, true);
  return tf.mul(tf.softmax(tf.add(scores, mask)), tf.cast(hasKeys, 'float32'));
}

/** Returns a mask to add to scores [N, heads, queries, keys]: query i sees keys up to i. */
export function causalMask(queries: number, keys: number): tf.Tensor {
  const values = new Float32Array(queries * keys);
  for (let i = 0; i < queries; i++) values.fill(EXCLUDED, i * keys + Math.min(keys, i + 1), (i + 1) * keys);
  return tf.tensor(values, [1, 1, queries, keys]);
}
