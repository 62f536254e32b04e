import { ShardlabError } from '../../core';
import * as tf from '../../core/tf';

/**
 * Runs `work` on a batch of inputs with `rank` axes. An input without a batch axis counts as a batch of one; the result
 * then has no batch axis either, as in torch. Throws: SHAPE for another number of axes.
 */
export function batched(
  layer: string,
  x: tf.Tensor,
  rank: number,
  work: (x: tf.Tensor) => tf.Tensor,
): tf.Tensor {
  if (x.rank === rank) return work(x);
  if (x.rank === rank - 1) return tf.squeeze(work(tf.expandDims(x, 0)), [0]);
  const axes = rank === 4 ? 'channels, height, width' : 'channels, length';
  throw new ShardlabError(
    'SHAPE',
    `${layer}: the input is [${x.shape}], but must be [batch, ${axes}]; use tf.reshape, or tf.transpose if channels are last.`,
  );
}
