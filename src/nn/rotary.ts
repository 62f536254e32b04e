import * as tf from '../core/tf';

// B sequences, T positions, H heads, D values per head, P = D / 2 pairs.

/** Cosines and sines of the rotation angle of each pair of values at each position: [T, P]. */
export interface Angles {
  readonly cos: tf.Tensor;
  readonly sin: tf.Tensor;
}

/** Returns the angle per position of each pair i: theta^(-i / pairs). Source: Su et al. 2021, section 3.2.2. */
export function frequencies(pairs: number, theta: number): tf.Tensor {
  return tf.tensor1d(Float32Array.from({ length: pairs }, (_, i) => theta ** (-i / pairs)));
}

/** Returns the angles of the positions from 0 to `positions` - 1 in a sequence. */
export function sequenceAngles(positions: number, pairs: number, theta: number): Angles {
  return anglesOf(positionTimes(positions, frequencies(pairs, theta)));
}

/** The numbers of frames, rows and columns of a video. */
export type Grid = readonly [frames: number, height: number, width: number];

/**
 * Returns the angles of the positions of a grid; the column index varies fastest. A third of the P pairs rotates with the
 * row, a third with the column, the rest with the frame. Source: Wan2.2's rope_params and rope_apply.
 */
export function gridAngles([frames, height, width]: Grid, pairs: number, theta: number): Angles {
  const third = Math.floor(pairs / 3);
  const first = pairs - 2 * third;
  const along = (extent: number, share: number, shape: readonly number[]): tf.Tensor => {
    const turned = tf.reshape(positionTimes(extent, frequencies(share, theta)), [...shape, share]);
    return tf.add(turned, tf.zeros([frames, height, width, share]));
  };
  const parts = [
    along(frames, first, [frames, 1, 1]),
    ...(third === 0 ? [] : [along(height, third, [1, height, 1]), along(width, third, [1, 1, width])]),
  ];
  return anglesOf(tf.reshape(tf.concat(parts, 3), [frames * height * width, pairs]));
}

/**
 * Rotates pairs of values of each head by the angles of their position; a pair is (i, i + P) for 'halves', and
 * (2i, 2i + 1) for 'neighbours'.
 * Shapes: x [B, T, H, D] → the same. Source: Su et al. 2021; Hugging Face's llama ('halves'), Wan2.2 ('neighbours').
 */
export function rotated(
  x_BTHD: tf.Tensor,
  { cos, sin }: Angles,
  pairing: 'halves' | 'neighbours',
): tf.Tensor {
  const { shape } = x_BTHD;
  const [batch = 0, positions = 0, heads = 0, headDim = 0] = shape;
  const pairs = headDim / 2;
  const isHalves = pairing === 'halves';
  const axis = isHalves ? 3 : 4;
  const x = tf.reshape(x_BTHD, [batch, positions, heads, ...(isHalves ? [2, pairs] : [pairs, 2])]);
  const perPosition = isHalves ? [positions, 1, 1, pairs] : [positions, 1, pairs, 1];
  const [a, b] = tf.split(x, 2, axis) as [tf.Tensor, tf.Tensor]; // `split` returns two tensors
  const turned = tf.concat([tf.neg(b), a], axis);
  const y = tf.add(tf.mul(x, tf.reshape(cos, perPosition)), tf.mul(turned, tf.reshape(sin, perPosition)));
  return tf.reshape(y, shape);
}

/** Returns position · frequency: [positions, frequencies]. */
function positionTimes(positions: number, frequency: tf.Tensor): tf.Tensor {
  const columns = tf.reshape(tf.range(0, positions, 1, 'float32'), [positions, 1]);
  return tf.mul(columns, tf.reshape(frequency, [1, frequency.size]));
}

function anglesOf(angles: tf.Tensor): Angles {
  return { cos: tf.cos(angles), sin: tf.sin(angles) };
}
