import type * as tf from '@tensorflow/tfjs';
import { causalAttention } from '../backend/ops';
import { Module } from './module';

/**
 * Attention of every position to itself and those before it, in several heads; it has no parameters.
 * Shapes: qkv [B, T, 3d] (queries, keys, values) → [B, T, d]. Source: Vaswani et al. 2017, section 3.2.
 */
export class CausalSelfAttention extends Module {
  readonly #heads: number;

  constructor(heads: number) {
    super();
    this.#heads = heads;
  }

  forward(qkv: tf.Tensor): tf.Tensor {
    return causalAttention(qkv, this.#heads);
  }
}
