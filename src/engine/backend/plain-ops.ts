import { IGNORED_LABEL } from '../../core';
import * as tf from '../../core/tf';

// The operations of ops.ts, composed of tfjs's operations. Engines without fused kernels run them, and tests compare fused
// kernels with them.

/** Returns x Wᵀ + b. */
export function plainLinear(x: tf.Tensor, weight: tf.Tensor, bias: tf.Tensor): tf.Tensor {
  return tf.add(tf.matMul(x, weight, false, true), bias);
}

/** Normalizes over the last axis, multiplies by weight and adds bias. */
export function plainLayerNorm(x: tf.Tensor, weight: tf.Tensor, bias: tf.Tensor, eps: number): tf.Tensor {
  const centred = tf.sub(x, tf.mean(x, -1, true));
  const variance = tf.mean(tf.square(centred), -1, true);
  return tf.add(tf.mul(tf.mul(centred, tf.rsqrt(tf.add(variance, eps))), weight), bias);
}

/** Returns 0.5 x (1 + tanh(sqrt(2/π) (x + 0.044715 x³))). Source: Hendrycks and Gimpel 2016. */
export function plainGelu(x: tf.Tensor): tf.Tensor {
  const cube = tf.mul(tf.square(x), x);
  const inner = tf.mul(tf.add(x, tf.mul(cube, 0.044715)), Math.sqrt(2 / Math.PI));
  return tf.mul(tf.mul(x, 0.5), tf.add(tf.tanh(inner), 1));
}

/** Returns x (1 + erf(x / √2)) / 2. */
export function plainExactGelu(x: tf.Tensor): tf.Tensor {
  return tf.mul(tf.mul(x, 0.5), tf.add(tf.erf(tf.mul(x, Math.SQRT1_2)), 1));
}

/** Returns the softmax of scale * scores over columns 0 to i + columns - rows in row i. */
export function plainCausalSoftmax(scores: tf.Tensor, scale: number): tf.Tensor {
  const [rows = 1, columns = 1] = scores.shape.slice(-2);
  return tf.softmax(tf.add(tf.mul(scores, scale), unseen(rows, columns)));
}

/** Returns a mask to add to scores: in row i, columns up to i + columns - rows keep their scores. */
function unseen(rows: number, columns: number): tf.Tensor {
  const hidden = new Float32Array(rows * columns);
  for (let i = 0; i < rows; i++)
    hidden.fill(-1e9, i * columns + Math.max(0, i + 1 + columns - rows), (i + 1) * columns);
  return tf.tensor(hidden, [rows, columns]);
}

/** Returns causal attention. Shapes: qkv [B, T, 3d] → [B, T, d]. */
export function plainCausalAttention(
  qkv: tf.Tensor,
  heads: number,
  softmax: (scores: tf.Tensor, scale: number) => tf.Tensor = plainCausalSoftmax,
): tf.Tensor {
  const [batch = 0, seq = 0, width = 0] = qkv.shape;
  const dim = width / 3;
  const headDim = dim / heads;
  const parts = tf.transpose(tf.reshape(qkv, [batch, seq, 3, heads, headDim]), [2, 0, 3, 1, 4]);
  const [q, k, v] = tf.unstack(parts) as [tf.Tensor, tf.Tensor, tf.Tensor]; // axis 0 has length 3
  const weights = softmax(tf.matMul(q, k, false, true), 1 / Math.sqrt(headDim));
  return tf.reshape(tf.transpose(tf.matMul(weights, v), [0, 2, 1, 3]), [batch, seq, dim]);
}

/** Returns attention and the log-sum-exp of its scaled scores; computes all weights at once. Shapes: see `flashAttention`. */
export function plainFlashAttention(
  q: tf.Tensor,
  k: tf.Tensor,
  v: tf.Tensor,
  isCausal: boolean,
  scale: number,
): { readonly out: tf.Tensor; readonly lse: tf.Tensor } {
  const [, queries = 0, heads = 1] = q.shape;
  const [, keys = 0, groups = 1] = k.shape;
  const shared = Array.from({ length: heads }, (_, head) => Math.floor((head * groups) / heads));
  const headed = (x: tf.Tensor): tf.Tensor =>
    tf.transpose(heads === groups ? x : tf.gather(x, shared, 2), [0, 2, 1, 3]);
  const scaled = tf.mul(tf.matMul(tf.transpose(q, [0, 2, 1, 3]), headed(k), false, true), scale);
  const scores = isCausal ? tf.add(scaled, unseen(queries, keys)) : scaled;
  const out = tf.transpose(tf.matMul(tf.softmax(scores), headed(v)), [0, 2, 1, 3]);
  return { out, lse: tf.logSumExp(scores, -1) };
}

/** Returns the mean of -log softmax(logits)[label], where the loss of rows with IGNORED_LABEL is 0. */
export function plainCrossEntropy(logits: tf.Tensor, labels: tf.Tensor): tf.Tensor {
  const classes = logits.shape.at(-1) ?? 1;
  const all = tf.reshape(labels, [-1]);
  const counts = tf.notEqual(all, tf.scalar(IGNORED_LABEL, 'int32'));
  const chosen = tf.mul(
    tf.oneHot(tf.mul(all, tf.cast(counts, 'int32')), classes),
    tf.logSoftmax(tf.reshape(logits, [-1, classes])),
  );
  return tf.neg(tf.mean(tf.mul(tf.sum(chosen, -1), tf.cast(counts, 'float32'))));
}

/** Returns rows of an embedding's table. */
export function plainEmbedding(table: tf.Tensor, ids: tf.Tensor): tf.Tensor {
  return tf.gather(table, ids);
}
