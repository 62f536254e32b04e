import { type LlamaConfig, llamaFfn, llamaSchema } from '../../config/families/kinds';
import type * as tf from '../../core/tf';
import { applyInTurn, ModuleList } from '../containers';
import { Embedding } from '../embedding';
import { GPT2, Linear } from '../linear';
import { LlamaBlock } from '../llama-block';
import { Module } from '../module';
import { RMSNorm } from '../norms';
import { type DividedSequences, endOf, fromBegin, type PositionsOf, rowsAt } from '../positions';
import { type Angles, sequenceAngles } from '../rotary';
import { checkedShape, type ShapeOptions } from './checked-shape';
import { headOutput, requireTokens, WHOLE_VOCABULARY } from './gpt';

/** The sizes of a Llama, and the seed of its initial values. */
export type LlamaOptions = ShapeOptions<typeof llamaSchema>;

/**
 * A Llama that computes logits, or its loss. Parameter names ('model.layers.0.self_attn.q_proj.weight') and initial values are
 * those of Hugging Face's LlamaForCausalLM: matrices are normal with std 0.02, norms are 1, biases are 0.
 * Shapes: ids [B, T] int32 → logits [B, T, vocab]; with targets [B·T] int32 → mean cross-entropy over all tokens (scalar).
 * Source: Touvron et al. 2023; Hugging Face's LlamaForCausalLM (Qwen2ForCausalLM with qkvBias).
 */
export class Llama extends Module {
  readonly shape: LlamaConfig;
  readonly model: LlamaModel;
  /** null if the head is the token embedding. */
  readonly lm_head: Linear<false> | null;
  /** The functions that read logits. Tensor parallelism replaces them by functions for a part of the vocabulary. */
  vocabulary = WHOLE_VOCABULARY;
  /** Divides sequences over ranks; null if every rank has whole sequences. Context parallelism sets this field. */
  sequences: DividedSequences | null = null;
  /** The number of ranks over which sequence parallelism divides the layers' inputs. */
  sequenceRanks = 1;

  constructor(shape: LlamaConfig) {
    super();
    this.shape = shape;
    this.model = new LlamaModel(shape);
    this.lm_head = shape.tied ? null : new Linear(shape.dim, shape.vocab, { ...GPT2, bias: false });
    if (shape.tied) this.sharesParameter(this.model.embed_tokens.weight);
  }

  /** The decoder's layers. */
  get blocks(): ModuleList<LlamaBlock> {
    return this.model.layers;
  }

  forward(ids: tf.Tensor, targets?: tf.Tensor): tf.Tensor {
    requireTokens('Llama', ids, targets);
    return this.#output(this.model.apply(ids), targets);
  }

  /** Returns the logits, or the loss, of the layers' output x [B, T, d], as `headOutput` does. */
  head(x: tf.Tensor, targets?: tf.Tensor): tf.Tensor {
    return this.#output(this.model.norm.apply(x), targets);
  }

  #output(normed: tf.Tensor, targets: tf.Tensor | undefined): tf.Tensor {
    const head = this.lm_head ?? this.model.embed_tokens.weight;
    return headOutput(normed, targets, head, this.vocabulary);
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
