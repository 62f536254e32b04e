import { type LlamaConfig, llamaFfn, llamaSchema } from '../../config';
import type * as tf from '../../core/tf';
import { applyInTurn, ModuleList } from '../containers';
import { Embedding } from '../embedding';
import { GPT2, Linear } from '../linear';
import { LlamaBlock } from '../llama-block';
import { Module } from '../module';
import { RMSNorm } from '../norms';
import { endOf, fromBegin, type PositionsOf, rowsAt } from '../positions';
import { type Angles, sequenceAngles } from '../rotary';
import { checkedShape, type ShapeOptions } from './checked-shape';
import { LanguageModel, type TensorPlan } from './language-model';

/** The sizes of a Llama, and the seed of its initial values. */
export type LlamaOptions = ShapeOptions<typeof llamaSchema>;

/**
 * A Llama that computes logits, or its loss. Parameter names ('model.layers.0.self_attn.q_proj.weight') and initial values are
 * those of Hugging Face's LlamaForCausalLM: matrices are normal with std 0.02, norms are 1, biases are 0.
 * Shapes: ids [B, T] int32 → logits [B, T, vocab]; with targets [B·T] int32 → mean cross-entropy over all tokens (scalar).
 * Source: Touvron et al. 2023; Hugging Face's LlamaForCausalLM (Qwen2ForCausalLM with qkvBias).
 */
export class Llama extends LanguageModel {
  readonly shape: LlamaConfig;
  readonly model: LlamaModel;
  readonly lm_head: Linear<false> | null;

  constructor(shape: LlamaConfig) {
    super();
    this.shape = shape;
    this.model = new LlamaModel(shape);
    this.lm_head = shape.tied ? null : new Linear(shape.dim, shape.vocab, { ...GPT2, bias: false });
    if (shape.tied) this.sharesParameter(this.model.embed_tokens.weight);
  }

  override get sizes(): LlamaConfig {
    return this.shape;
  }

  override get blocks(): ModuleList<LlamaBlock> {
    return this.model.layers;
  }

  override get embeddings(): readonly [Embedding] {
    return [this.model.embed_tokens];
  }

  override get lastNorm(): RMSNorm {
    return this.model.norm;
  }

  override get positionsOf(): PositionsOf {
    return this.model.positionsOf;
  }

  override set positionsOf(positionsOf: PositionsOf) {
    this.model.positionsOf = positionsOf;
  }

  override get tensorPlan(): TensorPlan {
    const { heads, kvHeads = heads } = this.shape;
    const attention = 'model.layers.*.self_attn';
    const mlp = 'model.layers.*.mlp';
    return {
      attention,
      embedding: 'model.embed_tokens',
      isEmbeddingWhole: false,
      columns: {
        [`${attention}.q_proj`]: { heads },
        [`${attention}.k_proj`]: { heads: kvHeads },
        [`${attention}.v_proj`]: { heads: kvHeads },
        [`${mlp}.gate_proj`]: {},
        [`${mlp}.up_proj`]: {},
      },
      rows: [`${attention}.o_proj`, `${mlp}.down_proj`],
      heads: [],
      norms: ['model.layers.*.input_layernorm', 'model.layers.*.post_attention_layernorm', 'model.norm'],
    };
  }

  override embed(ids: tf.Tensor): tf.Tensor {
    return this.model.embed_tokens.apply(ids);
  }

  override besides(positions: number): readonly tf.Tensor[] {
    const { cos, sin } = this.model.angles(positions);
    return [cos, sin];
  }

  override normed(ids: tf.Tensor): tf.Tensor {
    return this.model.apply(ids);
  }
}

/** A Llama without its head. Shapes: ids [B, T] int32 → [B, T, d]. Source: Hugging Face's LlamaModel. */
export class LlamaModel extends Module {
  readonly embed_tokens: Embedding;
  readonly layers: ModuleList<LlamaBlock>;
  readonly norm: RMSNorm;
  readonly #shape: LlamaConfig;
  positionsOf: PositionsOf = fromBegin;

  constructor(shape: LlamaConfig) {
    super();
    this.#shape = shape;
    const { layers, dim, heads, vocab, normEps: eps } = shape;
    const block = { ...shape, eps, kvHeads: shape.kvHeads ?? heads, ffn: shape.ffn ?? llamaFfn(dim) };
    this.embed_tokens = new Embedding(vocab, dim, GPT2);
    this.layers = new ModuleList(Array.from({ length: layers }, () => new LlamaBlock(block)));
    this.norm = new RMSNorm(dim, { eps });
  }

  forward(ids: tf.Tensor): tf.Tensor {
    const { cos, sin } = this.angles(ids.shape[1] ?? 0);
    return this.norm.apply(applyInTurn(this.layers, this.embed_tokens.apply(ids), cos, sin));
  }

  /** Returns the rotary angles of a sequence's positions; every layer takes these angles. */
  angles(positions: number): Angles {
    const { dim, heads, ropeTheta } = this.#shape;
    const ranges = this.positionsOf(positions);
    const { cos, sin } = sequenceAngles(endOf(ranges), dim / heads / 2, ropeTheta);
    return { cos: rowsAt(cos, ranges), sin: rowsAt(sin, ranges) };
  }
}

/** Makes a Llama with the seed's initial values, which are equal on all ranks. Throws: CONFIG if sizes contradict each other. */
export function llama(sizes: LlamaOptions): Llama {
  return new Llama(checkedShape('llama', llamaSchema, sizes)).manualSeed(sizes.seed ?? 0);
}
