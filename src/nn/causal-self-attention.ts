import { causalAttention } from '../backend/ops';
import type { AttentionKind } from '../config/settings/model';
import * as tf from '../core/tf';
import { attention } from './attention';
import { Module } from './module';

/**
 * Attention of every position to itself and earlier positions, in several heads; it has no parameters.
 * Shapes: qkv [B, T, 3d] (queries, keys, values) → [B, T, d]. Source: Vaswani et al. 2017, section 3.2.
 */
export class CausalSelfAttention extends Module {
  readonly #heads: number;
  readonly #kind: AttentionKind;

  constructor(heads: number, kind: AttentionKind = 'eager') {
    super();
    this.#heads = heads;
    this.#kind = kind;
  }

  forward(qkv: tf.Tensor): tf.Tensor {
    if (this.#kind === 'eager') return causalAttention(qkv, this.#heads);
    const [batch = 0, seq = 0, width = 0] = qkv.shape;
    const headed = [batch, seq, this.#heads, width / 3 / this.#heads];
    const [q, k, v] = tf.split(qkv, 3, 2).map((part) => tf.reshape(part, headed)) as [
      tf.Tensor,
      tf.Tensor,
      tf.Tensor,
    ]; // as many as requested
    return tf.reshape(attention(q, k, v, { causal: true, kind: this.#kind }), [batch, seq, width / 3]);
  }
}
