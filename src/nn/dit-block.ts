import type { DitConfig } from '../config';
import * as tf from '../core/tf';
import { gelu, layerNorm } from '../engine';
import { type Attend, attention, inHeads } from './attention';
import { Sequential } from './containers';
import { constant, type FirstValues, normal, xavierUniform } from './init';
import { Linear } from './linear';
import { Module } from './module';
import { LayerNorm, RMSNorm } from './norms';
import { Parameter } from './parameter';
import { type Angles, rotated } from './rotary';

/** The sizes and the attention of a `DitBlock`. */
export type DitBlockShape = Pick<DitConfig, 'dim' | 'heads' | 'ffn' | 'normEps' | 'attention'>;

/**
 * Divides the patches of a video over ranks (context parallelism). Shapes: x [B, N, d], which is cut and gathered along `dim`
 * (default 1).
 */
export interface PatchParts {
  cut(x: tf.Tensor, dim?: number): tf.Tensor;
  gather(x: tf.Tensor, dim?: number): tf.Tensor;
}

/** Initial values of Wan2.2's linear layers. */
export const DIT = { init: { weight: xavierUniform(), bias: constant(0) } } as const;

/**
 * A block of self-attention, cross-attention to the text, and a feed-forward layer; the timestep shifts, scales and gates
 * self-attention and the feed-forward layer. At its end, a block may also attend to audio. Shapes: x [B, N, d], time [B, 6, d]
 * or, if patches have their own timesteps, [B, N, 6, d], text [B, L, d], cos and sin [N, P], audio [B, F, A, d] → [B, N, d].
 * Source: Wan2.2's WanAttentionBlock, including names; Peebles and Xie 2023 (modulation).
 */
export class DitBlock extends Module {
  readonly self_attn: DitAttention;
  readonly norm3: LayerNorm;
  readonly cross_attn: DitAttention;
  readonly ffn: Sequential;
  readonly modulation: Parameter;
  readonly audio_attn: AudioAttention | null;
  readonly #eps: number;

  constructor(shape: DitBlockShape, { hasAudio = false } = {}) {
    super();
    const { dim, ffn, normEps } = shape;
    this.#eps = normEps;
    this.modulation = Parameter.deferred([1, 6, dim], normal(1 / Math.sqrt(dim)));
    this.self_attn = new DitAttention(shape);
    this.norm3 = new LayerNorm(dim, { eps: normEps });
    this.cross_attn = new DitAttention(shape);
    this.ffn = new Sequential([new Linear(dim, ffn, DIT), gelu, new Linear(ffn, dim, DIT)]);
    this.audio_attn = hasAudio ? new AudioAttention(shape) : null;
  }

  forward(
    x: tf.Tensor,
    time: tf.Tensor,
    text: tf.Tensor,
    cos: tf.Tensor,
    sin: tf.Tensor,
    audio?: tf.Tensor,
  ): tf.Tensor {
    // Shift, scale and gate of self-attention, then of the feed-forward layer; each is [B, 1, d], or [B, N, d].
    const parts = modulationsOf(this.modulation.tensor, time) as [Row, Row, Row, Row, Row, Row]; // one per row of `modulation`
    const [shift, scale, gate, shift2, scale2, gate2] = parts;
    const attended = this.self_attn.apply(modulated(x, shift, scale, this.#eps), cos, sin);
    const first = tf.add(x, tf.mul(attended, gate));
    const second = tf.add(first, this.cross_attn.apply(this.norm3.apply(first), text));
    const fed = this.ffn.apply(modulated(second, shift2, scale2, this.#eps));
    const third = tf.add(second, tf.mul(fed, gate2));
    if (this.audio_attn === null || audio === undefined) return third;
    return tf.add(third, this.audio_attn.apply(third, audio));
  }
}

type Row = tf.Tensor;

/**
 * Adds a timestep's embedding to rows of modulations, and splits the sums by row. Shapes: rows [1, n, d], time [B, n, d] or
 * [B, N, n, d].
 */
export function modulationsOf(rows: tf.Tensor, time: tf.Tensor): tf.Tensor[] {
  const count = rows.shape[1] ?? 1;
  const parts = tf.split(tf.add(rows, time), count, time.rank - 2);
  return time.rank === 3 ? parts : parts.map((part) => tf.squeeze(part, [2]));
}

/**
 * Attention of the patches of each latent frame to the audio of this frame. Initially, the output is 0. Shapes: x [B, N, d],
 * audio [B, F, A, d] → [B, N, d]. Source: Wan2.2-S2V's AudioInjector_WAN, without its scale and shift by audio.
 */
export class AudioAttention extends Module {
  readonly attn: DitAttention;
  readonly #eps: number;
  /**
   * Divides patches over ranks; null if this rank has all patches. Context parallelism sets this field. A rank's patches may
   * end within a frame, so all patches are gathered. Source: Wan2.2-S2V.
   */
  parts: PatchParts | null = null;

  constructor(shape: DitBlockShape) {
    super();
    this.#eps = shape.normEps;
    this.attn = new DitAttention(shape, constant(0));
  }

  forward(x: tf.Tensor, audio: tf.Tensor): tf.Tensor {
    const [batch = 0, frames = 0, tokens = 0, dim = 0] = audio.shape;
    const whole = this.parts === null ? x : this.parts.gather(x);
    const rows = tf.reshape(normalized(whole, this.#eps), [batch * frames, -1, dim]);
    const heard = this.attn.apply(rows, tf.reshape(audio, [batch * frames, tokens, dim]));
    const mixed = tf.reshape(heard, whole.shape);
    return this.parts === null ? mixed : this.parts.cut(mixed);
  }
}

/** Normalizes rows, then scales and shifts them. Shapes: x [B, N, d], shift and scale [B, 1, d] or [B, N, d]. */
export function modulated(x: tf.Tensor, shift: tf.Tensor, scale: tf.Tensor, eps: number): tf.Tensor {
  return tf.add(tf.mul(normalized(x, eps), tf.add(scale, 1)), shift);
}

function normalized(x: tf.Tensor, eps: number): tf.Tensor {
  const width = x.shape.at(-1) ?? 1;
  return layerNorm(x, tf.ones([width]), tf.zeros([width]), eps);
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
  /**
   * A function that computes attention in place of the shape's kernel; null if the kernel computes it. Context parallelism sets
   * this field for attention of a video to itself.
   */
  attend: Attend | null = null;

  constructor(shape: DitBlockShape, output: FirstValues = DIT.init.weight) {
    super();
    this.#shape = shape;
    const { dim, normEps } = shape;
    this.q = new Linear(dim, dim, DIT);
    this.k = new Linear(dim, dim, DIT);
    this.v = new Linear(dim, dim, DIT);
    this.o = new Linear(dim, dim, { init: { ...DIT.init, weight: output } });
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
    const mixed = (this.attend ?? attention)(q, k, v, { causal: false, kind });
    return this.o.apply(tf.reshape(mixed, x.shape));
  }
}
