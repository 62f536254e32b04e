import { gelu, layerNorm } from '../backend/ops';
import type { DitConfig } from '../config/settings/model';
import * as tf from '../core/tf';
import { attention, inHeads } from './attention';
import { Sequential } from './containers';
import { constant, normal, xavierUniform } from './init';
import { Linear } from './linear';
import { Module } from './module';
import { LayerNorm, RMSNorm } from './norms';
import { Parameter } from './parameter';
import { type Angles, rotated } from './rotary';

/** The sizes and the attention of a `DitBlock`. */
export type DitBlockShape = Pick<DitConfig, 'dim' | 'heads' | 'ffn' | 'normEps' | 'attention'>;

/** Initial values of Wan2.2's linear layers. */
export const DIT = { init: { weight: xavierUniform(), bias: constant(0) } } as const;

/**
 * A block of self-attention, cross-attention to the text, and a feed-forward layer; the timestep shifts, scales and gates
 * the first and the last of them. Shapes: x [B, N, d], time [B, 6, d], text [B, L, d], cos and sin [N, P] → [B, N, d].
 * Source: Wan2.2's WanAttentionBlock (names too); Peebles and Xie 2023 (modulation).
 */
export class DitBlock extends Module {
  readonly self_attn: DitAttention;
  readonly norm3: LayerNorm;
  readonly cross_attn: DitAttention;
  readonly ffn: Sequential;
  readonly modulation: Parameter;
  readonly #eps: number;

  constructor(shape: DitBlockShape) {
    super();
    const { dim, ffn, normEps } = shape;
    this.#eps = normEps;
    this.modulation = Parameter.deferred([1, 6, dim], normal(1 / Math.sqrt(dim)));
    this.self_attn = new DitAttention(shape);
    this.norm3 = new LayerNorm(dim, { eps: normEps });
    this.cross_attn = new DitAttention(shape);
    this.ffn = new Sequential([new Linear(dim, ffn, DIT), gelu, new Linear(ffn, dim, DIT)]);
  }

  forward(x: tf.Tensor, time: tf.Tensor, text: tf.Tensor, cos: tf.Tensor, sin: tf.Tensor): tf.Tensor {
    // Shift, scale and gate of self-attention, then of the feed-forward layer; each is [B, 1, d].
    const parts = tf.split(tf.add(this.modulation.tensor, time), 6, 1) as [Row, Row, Row, Row, Row, Row]; // split into six
    const [shift, scale, gate, shift2, scale2, gate2] = parts;
    const attended = this.self_attn.apply(modulated(x, shift, scale, this.#eps), cos, sin);
    const first = tf.add(x, tf.mul(attended, gate));
    const second = tf.add(first, this.cross_attn.apply(this.norm3.apply(first), text));
    const fed = this.ffn.apply(modulated(second, shift2, scale2, this.#eps));
    return tf.add(second, tf.mul(fed, gate2));
  }
}

type Row = tf.Tensor;

/** Normalizes rows, then scales and shifts them. Shapes: x [B, N, d], shift and scale [B, 1, d]. */
export function modulated(x: tf.Tensor, shift: tf.Tensor, scale: tf.Tensor, eps: number): tf.Tensor {
  const width = x.shape.at(-1) ?? 1;
  const normalized = layerNorm(x, tf.ones([width]), tf.zeros([width]), eps);
  return tf.add(tf.mul(normalized, tf.add(scale, 1)), shift);
}

/**
 * Attention of a video to itself, with rotary positions, or to a text. RMSNorm normalizes queries and keys. Shapes:
 * x [B, N, d], then cos and sin [N, P], or text [B, L, d] → [B, N, d]. Source: Wan2.2's WanSelfAttention, WanCrossAttention.
 */
export class DitAttention extends Module {
  readonly q: Linear;
  readonly k: Linear;
  readonly v: Linear;
  readonly o: Linear;
  readonly norm_q: RMSNorm;
  readonly norm_k: RMSNorm;
  readonly #shape: DitBlockShape;

  constructor(shape: DitBlockShape) {
    super();
    this.#shape = shape;
    const { dim, normEps } = shape;
    this.q = new Linear(dim, dim, DIT);
    this.k = new Linear(dim, dim, DIT);
    this.v = new Linear(dim, dim, DIT);
    this.o = new Linear(dim, dim, DIT);
    this.norm_q = new RMSNorm(dim, { eps: normEps });
    this.norm_k = new RMSNorm(dim, { eps: normEps });
  }

  forward(x: tf.Tensor, ...others: tf.Tensor[]): tf.Tensor {
    const [first, sin] = others;
    return sin === undefined || first === undefined
      ? this.#attend(x, first ?? x, null)
      : this.#attend(x, x, { cos: first, sin });
  }

  #attend(x: tf.Tensor, source: tf.Tensor, angles: Angles | null): tf.Tensor {
    const { heads, attention: kind } = this.#shape;
    const turned = (y: tf.Tensor): tf.Tensor => (angles === null ? y : rotated(y, angles, 'neighbours'));
    const q = turned(inHeads(this.norm_q.apply(this.q.apply(x)), heads));
    const k = turned(inHeads(this.norm_k.apply(this.k.apply(source)), heads));
    const v = inHeads(this.v.apply(source), heads);
    return this.o.apply(tf.reshape(attention(q, k, v, { causal: false, kind }), x.shape));
  }
}
