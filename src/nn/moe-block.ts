import * as tf from '../core/tf';
import type { BlockShape } from './block';
import { CausalSelfAttention } from './causal-self-attention';
import { LayerNorm } from './layer-norm';
import { GPT2, Linear } from './linear';
import { MixtureOfExperts, type MixtureOptions } from './mixture-of-experts';
import { Module } from './module';

/** A pre-norm transformer block whose feed-forward layer is a mixture of experts. Shapes: x [B, T, d] → the same. */
export class MoeBlock extends Module {
  readonly ln1: LayerNorm;
  readonly ln2: LayerNorm;
  readonly qkv: Linear;
  readonly attention: CausalSelfAttention;
  readonly proj: Linear;
  readonly moe: MixtureOfExperts;

  constructor({ heads, attention }: Pick<BlockShape, 'heads' | 'attention'>, mixture: MixtureOptions) {
    super();
    const { dim } = mixture;
    this.ln1 = new LayerNorm(dim);
    this.ln2 = new LayerNorm(dim);
    this.qkv = new Linear(dim, 3 * dim, GPT2);
    this.attention = new CausalSelfAttention(heads, attention);
    this.proj = new Linear(dim, dim, GPT2);
    this.moe = new MixtureOfExperts(mixture);
  }

  forward(x: tf.Tensor): tf.Tensor {
    const attended = this.attention.apply(this.qkv.apply(this.ln1.apply(x)));
    const middle = tf.add(x, this.proj.apply(attended));
    return tf.add(middle, this.moe.apply(this.ln2.apply(middle)));
  }
}
