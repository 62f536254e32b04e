import * as tf from '../core/tf';

/** x · sigmoid(x). Source: Elfwing et al. 2018; torch.nn.functional.silu. */
export function silu(x: tf.Tensor): tf.Tensor {
  return tf.mul(x, tf.sigmoid(x));
}
