import * as tf from '@tensorflow/tfjs';
import { gelu } from '../backend/ops';
import { attention } from './attention';
import { inHeads } from './heads';
import type { Init } from './init';
import { Projection } from './linear';
import { Module } from './module';
import { RelativePositions } from './relative-positions';
import { RMSNorm } from './rms-norm';
import { Sequential } from './sequential';

/** Sizes of a `T5Block`. */
export interface T5BlockShape {
  readonly dim: number;
  /** Width of all heads together. */
  readonly attnDim: number;
  readonly heads: number;
  readonly ffn: number;
  readonly relativeBuckets: number;
  readonly relativeDistance: number;
  readonly normEps: number;
}

/**
 * A pre-norm encoder block with relative positions of its own and a gated feed-forward layer.
 * Shapes: x [B, T, d], hidden [B, 1, 1, T] added to scores → [B, T, d]. Source: UMT5; names of Wan2.2's T5SelfAttention.
 */
export class T5Block extends Module {
  readonly norm1: RMSNorm;
  readonly attn: T5Attention;
  readonly norm2: RMSNorm;
  readonly ffn: GatedGelu;
  readonly posEmbedding: RelativePositions;

  constructor(shape: T5BlockShape, init: Init) {
    super();
    const { dim, normEps, ffn } = shape;
    this.norm1 = this.addChild('norm1', new RMSNorm(dim, normEps, init));
    this.attn = this.addChild('attn', new T5Attention(shape, init.within('attn')));
    this.norm2 = this.addChild('norm2', new RMSNorm(dim, normEps, init));
    this.ffn = this.addChild('ffn', new GatedGelu(dim, ffn, init.within('ffn')));
    this.posEmbedding = this.addChild(
      'pos_embedding',
      new RelativePositions(
        { heads: shape.heads, buckets: shape.relativeBuckets, farthest: shape.relativeDistance },
        init.within('pos_embedding'),
      ),
    );
  }

  forward(x: tf.Tensor, hidden: tf.Tensor): tf.Tensor {
    const bias = tf.add(this.posEmbedding.apply(x), hidden);
    const middle = tf.add(x, this.attn.apply(this.norm1.apply(x), bias));
    return tf.add(middle, this.ffn.apply(this.norm2.apply(middle)));
  }
}

/** Attention without scale whose scores have a bias. Shapes: x [B, T, d], bias [B, heads, T, T] → [B, T, d]. */
export class T5Attention extends Module {
  readonly q: Projection;
  readonly k: Projection;
  readonly v: Projection;
  readonly o: Projection;
  readonly #heads: number;

  constructor({ dim, attnDim, heads }: T5BlockShape, init: Init) {
    super();
    this.#heads = heads;
    this.q = this.addChild('q', new Projection(dim, attnDim, init.within('q')));
    this.k = this.addChild('k', new Projection(dim, attnDim, init.within('k')));
    this.v = this.addChild('v', new Projection(dim, attnDim, init.within('v')));
    this.o = this.addChild('o', new Projection(attnDim, dim, init.within('o')));
  }

  forward(x: tf.Tensor, bias: tf.Tensor): tf.Tensor {
    const [q, k, v] = [this.q, this.k, this.v].map((part) => inHeads(part.apply(x), this.#heads)) as Heads;
    const mixed = attention(q, k, v, { causal: false, scale: 1, bias });
    const [batch = 0, positions = 0] = x.shape;
    return this.o.apply(tf.reshape(mixed, [batch, positions, this.o.weight.shape[1] ?? 0]));
  }
}

type Heads = [tf.Tensor, tf.Tensor, tf.Tensor];

/** fc2(gelu(gate(x)) · fc1(x)). Shapes: x [B, T, d] → the same. Source: Shazeer 2020. */
class GatedGelu extends Module {
  readonly gate: Sequential;
  readonly fc1: Projection;
  readonly fc2: Projection;

  constructor(dim: number, ffn: number, init: Init) {
    super();
    this.gate = this.addChild(
      'gate',
      new Sequential([new Projection(dim, ffn, init.within('gate.0')), gelu]),
    );
    this.fc1 = this.addChild('fc1', new Projection(dim, ffn, init.within('fc1')));
    this.fc2 = this.addChild('fc2', new Projection(ffn, dim, init.within('fc2')));
  }

  forward(x: tf.Tensor): tf.Tensor {
    return this.fc2.apply(tf.mul(this.gate.apply(x), this.fc1.apply(x)));
  }
}
