import { gelu } from '../backend/ops';
import type { AttentionKind } from '../config/settings/model';
import * as tf from '../core/tf';
import { CausalSelfAttention } from './causal-self-attention';
import { LayerNorm } from './layer-norm';
import { GPT2, Linear } from './linear';
import { Module } from './module';

/** The size of a block. */
export interface BlockShape {
  readonly dim: number;
  readonly heads: number;
  /** Width between the matrices of the feed-forward layer. Default 4 · dim. */
  readonly ffn?: number | undefined;
  /** Default 'eager'. */
  readonly attention?: AttentionKind | undefined;
}

/** A pre-norm transformer block without dropout. Shapes: x [B, T, d] → the same. */
export class Block extends Module {
  readonly ln1: LayerNorm;
  readonly ln2: LayerNorm;
  readonly qkv: Linear;
  readonly attention: CausalSelfAttention;
  readonly proj: Linear;
  readonly fc1: Linear;
  readonly fc2: Linear;

  constructor({ dim, heads, ffn = 4 * dim, attention }: BlockShape) {
    super();
    this.ln1 = new LayerNorm(dim);
    this.ln2 = new LayerNorm(dim);
    this.qkv = new Linear(dim, 3 * dim, GPT2);
    this.attention = new CausalSelfAttention(heads, attention);
    this.proj = new Linear(dim, dim, GPT2);
    this.fc1 = new Linear(dim, ffn, GPT2);
    this.fc2 = new Linear(ffn, dim, GPT2);
  }

  forward(x: tf.Tensor): tf.Tensor {
    const attended = this.attention.apply(this.qkv.apply(this.ln1.apply(x)));
    const middle = tf.add(x, this.proj.apply(attended));
    const hidden = gelu(this.fc1.apply(this.ln2.apply(middle)));
    return tf.add(middle, this.fc2.apply(hidden));
  }
}
