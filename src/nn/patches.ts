import * as tf from '../core/tf';
import type { Grid } from './rotary';

// B videos, C channels, F frames, H rows, W columns; patches of (t, p, q), f·h·w of them.

/**
 * A video's patches, each with its channels outermost. Shapes: x [B, C, F, H, W] → [B, f·h·w, C·t·p·q].
 * Source: the order in which torch.nn.Conv3d's weight [dim, C, t, p, q] reads a patch.
 */
export function patchesOf(x: tf.Tensor, [t, p, q]: Grid): tf.Tensor {
  const [batch = 0, channels = 0, frames = 0, rows = 0, columns = 0] = x.shape;
  const [f, h, w] = [frames / t, rows / p, columns / q];
  const tiled = tf.transpose(tf.reshape(x, [batch * channels * frames, h, p, w, q]), [0, 1, 3, 2, 4]);
  const parts = tf.reshape(tiled, [batch, channels, f, t, h * w, p * q]);
  return tf.reshape(tf.transpose(parts, [0, 2, 4, 1, 3, 5]), [batch, f * h * w, channels * t * p * q]);
}

/**
 * The video of patches, each with its channels innermost. Shapes: x [B, f·h·w, t·p·q·C] → [B, C, F, H, W].
 * Source: Wan2.2's unpatchify.
 */
export function videoOf(x: tf.Tensor, [f, h, w]: Grid, [t, p, q]: Grid): tf.Tensor {
  const [batch = 0, , width = 0] = x.shape;
  const channels = width / (t * p * q);
  const parts = tf.transpose(tf.reshape(x, [batch, f, h * w, t, p * q, channels]), [0, 5, 1, 3, 2, 4]);
  const tiled = tf.reshape(parts, [batch * channels * f * t, h, w, p, q]);
  return tf.reshape(tf.transpose(tiled, [0, 1, 3, 2, 4]), [batch, channels, f * t, h * p, w * q]);
}
