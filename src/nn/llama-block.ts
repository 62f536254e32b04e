import type { AttentionKind } from '../config';
import * as tf from '../core/tf';
import { silu } from '../engine';
import { attention, inHeads, SequenceAttention } from './attention';
import { constant } from './init';
import { GPT2, Linear } from './linear';
import { Module } from './module';
import { RMSNorm } from './norms';
import { type Angles, rotated } from './rotary';

const NO_BIAS = { ...GPT2, bias: false } as const;
const QKV = { init: { ...GPT2.init, bias: constant(0) } } as const;

/** The sizes and options of a `LlamaBlock`. */
export interface LlamaBlockShape {
  readonly dim: number;
  readonly heads: number;
  readonly kvHeads: number;
  /** The inner width of the feed-forward layer. */
  readonly ffn: number;
  /** Whether queries, keys and values have a bias. */
  readonly qkvBias: boolean;
  /** The eps of RMSNorm. */
  readonly eps: number;
  readonly attention: AttentionKind;
}

/**
 * A pre-norm block with RMSNorm, rotary positions, heads in groups, and SwiGLU.
 * Shapes: x [B, T, d], cos and sin [T, P] → [B, T, d]. Source: Touvron et al. 2023; names are those of Hugging Face's
 * LlamaDecoderLayer.
 */
export class LlamaBlock extends Module {
  readonly input_layernorm: RMSNorm;
  readonly self_attn: LlamaAttention;
  readonly post_attention_layernorm: RMSNorm;
  readonly mlp: SwiGLU;

  constructor(shape: LlamaBlockShape) {
    super();
    const { dim, eps, ffn } = shape;
    this.self_attn = new LlamaAttention(shape);
    this.mlp = new SwiGLU(dim, ffn);
    this.input_layernorm = new RMSNorm(dim, { eps });
    this.post_attention_layernorm = new RMSNorm(dim, { eps });
  }

  forward(x: tf.Tensor, cos: tf.Tensor, sin: tf.Tensor): tf.Tensor {
    const middle = tf.add(x, this.self_attn.apply(this.input_layernorm.apply(x), cos, sin));
    return tf.add(middle, this.mlp.apply(this.post_attention_layernorm.apply(middle)));
  }
}

/** Causal attention with rotary positions. Shapes: x [B, T, d], cos and sin [T, P] → [B, T, d]. */
export class LlamaAttention extends SequenceAttention {
  readonly q_proj: Linear<boolean>;
  readonly k_proj: Linear<boolean>;
  readonly v_proj: Linear<boolean>;
  readonly o_proj: Linear<false>;
  readonly #shape: LlamaBlockShape;

  constructor(shape: LlamaBlockShape) {
    super();
    const { dim, heads, kvHeads, qkvBias } = shape;
    this.#shape = shape;
    const qkv = { ...QKV, bias: qkvBias };
    const kvDim = (dim / heads) * kvHeads;
    this.q_proj = new Linear(dim, dim, qkv);
    this.k_proj = new Linear(dim, kvDim, qkv);
    this.v_proj = new Linear(dim, kvDim, qkv);
    this.o_proj = new Linear(dim, dim, NO_BIAS);
  }

  forward(x: tf.Tensor, cos: tf.Tensor, sin: tf.Tensor): tf.Tensor {
    const { dim, heads, attention: kind } = this.#shape;
    const angles: Angles = { cos, sin };
    // Under tensor parallelism, the projections return only this rank's heads.
    const split = (y: tf.Tensor): tf.Tensor => inHeads(y, ((y.shape[2] ?? 0) * heads) / dim);
    const q = rotated(split(this.q_proj.apply(x)), angles, 'halves');
    const k = rotated(split(this.k_proj.apply(x)), angles, 'halves');
    const v = split(this.v_proj.apply(x));
    const [batch = 0, positions = 0] = q.shape;
    const mixed = (this.attend ?? attention)(q, k, v, { causal: true, kind });
    return this.o_proj.apply(tf.reshape(mixed, [batch, positions, -1]));
  }
}

/** Returns down(silu(gate(x)) · up(x)). Shapes: x [B, T, d] → the same. Source: Shazeer 2020. */
export class SwiGLU extends Module {
  readonly gate_proj: Linear<false>;
  readonly up_proj: Linear<false>;
  readonly down_proj: Linear<false>;

  constructor(dim: number, ffn: number) {
    super();
    this.gate_proj = new Linear(dim, ffn, NO_BIAS);
    this.up_proj = new Linear(dim, ffn, NO_BIAS);
    this.down_proj = new Linear(ffn, dim, NO_BIAS);
  }

  forward(x: tf.Tensor): tf.Tensor {
    return this.down_proj.apply(tf.mul(silu(this.gate_proj.apply(x)), this.up_proj.apply(x)));
  }
}
