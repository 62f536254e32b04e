import * as tf from '@tensorflow/tfjs';
import { gelu } from '../backend/ops';
import type { AttentionKind } from '../config/model-config';
import { CausalSelfAttention } from './causal-self-attention';
import type { Init } from './init';
import { LayerNorm } from './layer-norm';
import { Linear } from './linear';
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

  constructor({ dim, heads, ffn = 4 * dim, attention }: BlockShape, init: Init) {
    super();
    this.ln1 = this.addChild('ln1', new LayerNorm(dim, init));
    this.ln2 = this.addChild('ln2', new LayerNorm(dim, init));
    this.qkv = this.addChild('qkv', new Linear(dim, 3 * dim, init.within('qkv')));
    this.attention = this.addChild('attention', new CausalSelfAttention(heads, attention));
    this.proj = this.addChild('proj', new Linear(dim, dim, init.within('proj')));
    this.fc1 = this.addChild('fc1', new Linear(dim, ffn, init.within('fc1')));
    this.fc2 = this.addChild('fc2', new Linear(ffn, dim, init.within('fc2')));
  }

  forward(x: tf.Tensor): tf.Tensor {
    const attended = this.attention.apply(this.qkv.apply(this.ln1.apply(x)));
    const middle = tf.add(x, this.proj.apply(attended));
    const hidden = gelu(this.fc1.apply(this.ln2.apply(middle)));
    return tf.add(middle, this.fc2.apply(hidden));
  }
}
