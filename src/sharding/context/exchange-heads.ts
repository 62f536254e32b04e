import { withGradients } from '../../core';
import * as tf from '../../core/tf';
import { currentEngine } from '../../engine';
import type { ProcessGroup } from '../../wire';
import { exchangeOptions } from '../exchange-options';

// B sequences, T positions of all P ranks together, H heads of all ranks, D values per head.

/**
 * Returns all positions of this rank's heads, from this rank's positions of all heads. The positions are in rank order.
 * Shapes: [B, T / P, H, D] → [B, T, H / P, D].
 */
export function headsOfSequence(x: tf.Tensor, group: ProcessGroup, module?: string): tf.Tensor {
  const [batch = 0, own = 0, heads = 0, headDim = 0] = x.shape;
  const split = tf.reshape(x, [batch, own, group.size, heads / group.size, headDim]);
  const received = exchanged(tf.transpose(split, [2, 0, 1, 3, 4]), group, module);
  const inOrder = tf.transpose(received, [1, 0, 2, 3, 4]);
  return tf.reshape(inOrder, [batch, own * group.size, heads / group.size, headDim]);
}

/**
 * Returns this rank's positions of all heads, from all positions of this rank's heads.
 * Shapes: [B, T, H / P, D] → [B, T / P, H, D].
 */
export function sequenceOfHeads(x: tf.Tensor, group: ProcessGroup, module?: string): tf.Tensor {
  const [batch = 0, positions = 0, own = 0, headDim = 0] = x.shape;
  const split = tf.reshape(x, [batch, group.size, positions / group.size, own, headDim]);
  const received = exchanged(tf.transpose(split, [1, 0, 2, 3, 4]), group, module);
  const inOrder = tf.transpose(received, [1, 2, 0, 3, 4]);
  return tf.reshape(inOrder, [batch, positions / group.size, own * group.size, headDim]);
}

/** Sends row r of x to rank r; row r of the result comes from rank r. Backward exchanges the gradient in the same way. */
function exchanged(x: tf.Tensor, group: ProcessGroup, module: string | undefined): tf.Tensor {
  const options = exchangeOptions(module);
  const exchange = (rows: tf.Tensor): tf.Tensor => {
    const received = group.allToAll(rows, options).wait();
    currentEngine()?.retag(received, { cause: 'temp', module: options.module });
    return received;
  };
  return withGradients([x], () => ({ value: exchange(x), gradients: (dy) => [exchange(dy)] }));
}
