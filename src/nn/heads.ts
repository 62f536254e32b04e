import * as tf from '../core/tf';

/** The same values by head. Shapes: x [B, T, H·D] → [B, T, H, D]. */
export function inHeads(x: tf.Tensor, heads: number): tf.Tensor {
  const [batch = 0, positions = 0, width = 0] = x.shape;
  return tf.reshape(x, [batch, positions, heads, width / heads]);
}
