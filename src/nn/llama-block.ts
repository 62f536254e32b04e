import * as tf from '@tensorflow/tfjs';
import type { AttentionKind } from '../config/model-config';
import { silu } from './activations';
import { attention } from './attention';
import { inHeads } from './heads';
import type { Init } from './init';
import { Linear, Projection } from './linear';
import { Module } from './module';
import { RMSNorm } from './rms-norm';
import { type Angles, rotated } from './rotary';

/** Sizes and choices of a `LlamaBlock`. */
export interface LlamaBlockShape {
  readonly dim: number;
  readonly heads: number;
  readonly kvHeads: number;
  /** Width between the matrices of the feed-forward layer. */
  readonly ffn: number;
  /** Whether queries, keys and values have a bias. */
  readonly qkvBias: boolean;
  /** Of RMSNorm. */
  readonly eps: number;
  readonly attention: AttentionKind;
}

/**
 * A pre-norm block with RMSNorm, rotary positions, heads in groups, and SwiGLU.
 * Shapes: x [B, T, d], cos and sin [T, P] → [B, T, d]. Source: Touvron et al. 2023; names of Hugging Face's LlamaDecoderLayer.
 */
export class LlamaBlock extends Module {
  readonly inputLayernorm: RMSNorm;
  readonly selfAttn: LlamaAttention;
  readonly postAttentionLayernorm: RMSNorm;
  readonly mlp: SwiGLU;

  constructor(shape: LlamaBlockShape, init: Init) {
    super();
    const { dim, eps, ffn } = shape;
    this.selfAttn = this.addChild('self_attn', new LlamaAttention(shape, init.within('self_attn')));
    this.mlp = this.addChild('mlp', new SwiGLU(dim, ffn, init.within('mlp')));
    this.inputLayernorm = this.addChild('input_layernorm', new RMSNorm(dim, eps, init));
    this.postAttentionLayernorm = this.addChild('post_attention_layernorm', new RMSNorm(dim, eps, init));
  }

  forward(x: tf.Tensor, cos: tf.Tensor, sin: tf.Tensor): tf.Tensor {
    const middle = tf.add(x, this.selfAttn.apply(this.inputLayernorm.apply(x), cos, sin));
    return tf.add(middle, this.mlp.apply(this.postAttentionLayernorm.apply(middle)));
  }
}

/** Causal attention with rotary positions. Shapes: x [B, T, d], cos and sin [T, P] → [B, T, d]. */
export class LlamaAttention extends Module {
  readonly qProj: Linear | Projection;
  readonly kProj: Linear | Projection;
  readonly vProj: Linear | Projection;
  readonly oProj: Projection;
  readonly #shape: LlamaBlockShape;

  constructor(shape: LlamaBlockShape, init: Init) {
    super();
    const { dim, heads, kvHeads, qkvBias } = shape;
    this.#shape = shape;
    const projection = (name: string, outputs: number): Linear | Projection => {
      const own = init.within(name);
      const layer = qkvBias
        ? new Linear(dim, outputs, own, { bias: 'zeros' })
        : new Projection(dim, outputs, own);
      return this.addChild(name, layer);
    };
    this.qProj = projection('q_proj', dim);
    this.kProj = projection('k_proj', (dim / heads) * kvHeads);
    this.vProj = projection('v_proj', (dim / heads) * kvHeads);
    this.oProj = this.addChild('o_proj', new Projection(dim, dim, init.within('o_proj')));
  }

  forward(x: tf.Tensor, cos: tf.Tensor, sin: tf.Tensor): tf.Tensor {
    const { heads, kvHeads, attention: kind } = this.#shape;
    const angles: Angles = { cos, sin };
    const q = rotated(inHeads(this.qProj.apply(x), heads), angles, 'halves');
    const k = rotated(inHeads(this.kProj.apply(x), kvHeads), angles, 'halves');
    const v = inHeads(this.vProj.apply(x), kvHeads);
    return this.oProj.apply(tf.reshape(attention(q, k, v, { causal: true, kind }), x.shape));
  }
}

/** down(silu(gate(x)) · up(x)). Shapes: x [B, T, d] → the same. Source: Shazeer 2020. */
export class SwiGLU extends Module {
  readonly gateProj: Projection;
  readonly upProj: Projection;
  readonly downProj: Projection;

  constructor(dim: number, ffn: number, init: Init) {
    super();
    this.gateProj = this.addChild('gate_proj', new Projection(dim, ffn, init.within('gate_proj')));
    this.upProj = this.addChild('up_proj', new Projection(dim, ffn, init.within('up_proj')));
    this.downProj = this.addChild('down_proj', new Projection(ffn, dim, init.within('down_proj')));
  }

  forward(x: tf.Tensor): tf.Tensor {
    return this.downProj.apply(tf.mul(silu(this.gateProj.apply(x)), this.upProj.apply(x)));
  }
}
