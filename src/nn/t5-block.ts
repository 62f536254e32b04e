import type { T5Config } from '../config';
import * as tf from '../core/tf';
import { gelu } from '../engine';
import { attention, inHeads } from './attention';
import { Sequential } from './containers';
import { Embedding } from './embedding';
import { GPT2, Linear } from './linear';
import { Module } from './module';
import { RMSNorm } from './norms';

const NO_BIAS = { ...GPT2, bias: false } as const;

/** The sizes of a `T5Block`. `attnDim` is the width of all heads together. */
export type T5BlockShape = Omit<T5Config, 'kind' | 'layers' | 'vocab' | 'seq'> & { readonly attnDim: number };

/**
 * A pre-norm encoder block with its own relative positions and a gated feed-forward layer; `hidden` is added to scores.
 * Shapes: x [B, T, d], hidden [B, 1, 1, T] → [B, T, d]. Source: UMT5; names are those of Wan2.2's T5SelfAttention.
 */
export class T5Block extends Module {
  readonly norm1: RMSNorm;
  readonly attn: T5Attention;
  readonly norm2: RMSNorm;
  readonly ffn: GatedGelu;
  readonly pos_embedding: RelativePositions;

  constructor(shape: T5BlockShape) {
    super();
    const { dim, normEps, ffn } = shape;
    this.norm1 = new RMSNorm(dim, { eps: normEps });
    this.attn = new T5Attention(shape);
    this.norm2 = new RMSNorm(dim, { eps: normEps });
    this.ffn = new GatedGelu(dim, ffn);
    this.pos_embedding = new RelativePositions(shape);
  }

  forward(x: tf.Tensor, hidden: tf.Tensor): tf.Tensor {
    const bias = tf.add(this.pos_embedding.apply(x), hidden);
    const middle = tf.add(x, this.attn.apply(this.norm1.apply(x), bias));
    return tf.add(middle, this.ffn.apply(this.norm2.apply(middle)));
  }
}

/** Attention with a bias and without a scale of scores. Shapes: x [B, T, d], bias [B, heads, T, T] → [B, T, d]. */
export class T5Attention extends Module {
  readonly q: Linear<false>;
  readonly k: Linear<false>;
  readonly v: Linear<false>;
  readonly o: Linear<false>;
  readonly #heads: number;

  constructor({ dim, attnDim, heads }: T5BlockShape) {
    super();
    this.#heads = heads;
    this.q = new Linear(dim, attnDim, NO_BIAS);
    this.k = new Linear(dim, attnDim, NO_BIAS);
    this.v = new Linear(dim, attnDim, NO_BIAS);
    this.o = new Linear(attnDim, dim, NO_BIAS);
  }

  forward(x: tf.Tensor, bias: tf.Tensor): tf.Tensor {
    const [q, k, v] = [this.q, this.k, this.v].map((part) => inHeads(part.apply(x), this.#heads)) as Heads;
    const mixed = attention(q, k, v, { causal: false, scale: 1, bias });
    const [batch = 0, positions = 0] = x.shape;
    return this.o.apply(tf.reshape(mixed, [batch, positions, this.o.weight.shape[1] ?? 0]));
  }
}

type Heads = [tf.Tensor, tf.Tensor, tf.Tensor];

/** Returns fc2(gelu(gate(x)) · fc1(x)). Shapes: x [B, T, d] → the same. Source: Shazeer 2020. */
class GatedGelu extends Module {
  readonly gate: Sequential;
  readonly fc1: Linear<false>;
  readonly fc2: Linear<false>;

  constructor(dim: number, ffn: number) {
    super();
    this.gate = new Sequential([new Linear(dim, ffn, NO_BIAS), gelu]);
    this.fc1 = new Linear(dim, ffn, NO_BIAS);
    this.fc2 = new Linear(ffn, dim, NO_BIAS);
  }

  forward(x: tf.Tensor): tf.Tensor {
    return this.fc2.apply(tf.mul(this.gate.apply(x), this.fc1.apply(x)));
  }
}

/**
 * A bias of attention scores that depends on the distance between key and query; keys before and after the query have different
 * buckets. Each small distance has its own bucket, larger distances share buckets logarithmically, and all distances from
 * relativeDistance on share one bucket. Shapes: x [B, T, …] (only T is used) → [heads, T, T].
 * Source: Raffel et al. 2020, section 2.1; Hugging Face's T5Attention.
 */
class RelativePositions extends Module {
  readonly embedding: Embedding;
  readonly #shape: T5BlockShape;

  constructor(shape: T5BlockShape) {
    super();
    this.#shape = shape;
    this.embedding = new Embedding(shape.relativeBuckets, shape.heads, GPT2);
  }

  forward(x: tf.Tensor): tf.Tensor {
    const positions = x.shape[1] ?? 0;
    const ids = tf.tensor1d(bucketsOf(positions, this.#shape), 'int32');
    const rows = this.embedding.apply(ids);
    return tf.reshape(tf.transpose(rows), [this.#shape.heads, positions, positions]);
  }
}

/** Returns the bucket of each pair of query and key. */
function bucketsOf(positions: number, { relativeBuckets, relativeDistance }: T5BlockShape): Int32Array {
  const ofSide = relativeBuckets >> 1;
  const numExact = ofSide >> 1;
  const perLog = (ofSide - numExact) / Math.log(relativeDistance / numExact);
  const byDistance = Array.from({ length: positions }, (_, distance) => {
    if (distance < numExact) return distance;
    return Math.min(ofSide - 1, numExact + Math.floor(Math.log(distance / numExact) * perLog));
  });
  return Int32Array.from({ length: positions * positions }, (_, i) => {
    const distance = (i % positions) - Math.floor(i / positions);
    return (byDistance[Math.abs(distance)] ?? 0) + (distance > 0 ? ofSide : 0);
  });
}
