import type { AttentionKind } from '../config';
import * as tf from '../core/tf';
import { gelu } from '../engine';
import { CausalSelfAttention } from './attention';
import { GPT2, Linear } from './linear';
import { Module } from './module';
import { MixtureOfExperts, type MixtureOptions } from './moe/mixture-of-experts';
import { LayerNorm } from './norms';

/** The sizes and the attention of a block. */
export interface BlockShape {
  readonly dim: number;
  readonly heads: number;
  /** The inner width of the feed-forward layer. Default 4 · dim. */
  readonly ffn?: number | undefined;
  /** Default 'eager'. */
  readonly attention?: AttentionKind | undefined;
}

/** A pre-norm transformer block without dropout; subclasses define the feed-forward layer. Shapes: x [B, T, d] → the same. */
export abstract class AttentionBlock extends Module {
  readonly ln1: LayerNorm;
  readonly ln2: LayerNorm;
  readonly qkv: Linear;
  readonly attention: CausalSelfAttention;
  readonly proj: Linear;

  constructor({ dim, heads, attention }: Omit<BlockShape, 'ffn'>) {
    super();
    this.ln1 = new LayerNorm(dim);
    this.ln2 = new LayerNorm(dim);
    this.qkv = new Linear(dim, 3 * dim, GPT2);
    this.attention = new CausalSelfAttention(heads, attention);
    this.proj = new Linear(dim, dim, GPT2);
  }

  /**
   * Computes the feed-forward layer. This method is public, because TypeScript accepts no wrapped block in place of a block with
   * protected members.
   */
  abstract feed(x: tf.Tensor): tf.Tensor;

  forward(x: tf.Tensor): tf.Tensor {
    const attended = this.attention.apply(this.qkv.apply(this.ln1.apply(x)));
    const middle = tf.add(x, this.proj.apply(attended));
    return tf.add(middle, this.feed(this.ln2.apply(middle)));
  }
}

/** A block whose feed-forward layer is a linear layer, GELU and another linear layer. */
export class Block extends AttentionBlock {
  readonly fc1: Linear;
  readonly fc2: Linear;

  constructor(shape: BlockShape) {
    super(shape);
    const { dim, ffn = 4 * dim } = shape;
    this.fc1 = new Linear(dim, ffn, GPT2);
    this.fc2 = new Linear(ffn, dim, GPT2);
  }

  feed(x: tf.Tensor): tf.Tensor {
    return this.fc2.apply(gelu(this.fc1.apply(x)));
  }
}

/** A block whose feed-forward layer is a mixture of experts. */
export class MoeBlock extends AttentionBlock {
  readonly moe: MixtureOfExperts;

  constructor(shape: Pick<BlockShape, 'heads' | 'attention'>, mixture: MixtureOptions) {
    super({ ...shape, dim: mixture.dim });
    this.moe = new MixtureOfExperts(mixture);
  }

  feed(x: tf.Tensor): tf.Tensor {
    return this.moe.apply(x);
  }
}
