import {
  type AttentionKind,
  type GptConfig,
  gptSchema,
  type MoeConfig,
  moeSchema,
  type RouterOptions,
} from '../../config';
import { ShardlabError } from '../../core';
import * as tf from '../../core/tf';
import { type AttentionBlock, Block, MoeBlock } from '../block';
import { ModuleList } from '../containers';
import { Embedding } from '../embedding';
import { GPT2, Linear } from '../linear';
import { addAuxiliaryLosses } from '../moe/mixture-of-experts';
import { TokenKeys } from '../moe/row-keys';
import { LayerNorm } from '../norms';
import { endOf, fromBegin, type PositionRange, type PositionsOf, rowsAt } from '../positions';
import { checkedShape } from './checked-shape';
import { LanguageModel, type TensorPlan } from './language-model';

/** The sizes and options of a GPT. */
export interface GptShape {
  readonly layers: number;
  readonly dim: number;
  readonly heads: number;
  readonly vocab: number;
  /** The maximum sequence length. */
  readonly seq: number;
  /** The inner width of a block's feed-forward layer. Default 4 · dim. */
  readonly ffn?: number | undefined;
  /** The attention algorithm. Default 'eager'. */
  readonly attention?: AttentionKind | undefined;
  /** Whether the output head uses the token embedding's weight. Default true. */
  readonly tied?: boolean | undefined;
}

/**
 * A language model with a learned embedding per position.
 * Source: Radford et al. 2019; matrices are initially normal with std 0.02, LayerNorm's weight is 1, and its bias is 0.
 */
abstract class GptModel<B extends AttentionBlock> extends LanguageModel {
  readonly shape: GptShape;
  readonly wte: Embedding;
  readonly wpe: Embedding;
  readonly blocks: ModuleList<B>;
  readonly ln_f: LayerNorm;
  readonly lm_head: Linear<false> | null;
  positionsOf: PositionsOf = fromBegin;

  constructor(shape: GptShape, block: () => B) {
    super();
    this.shape = shape;
    const { layers, dim, vocab, seq, tied = true } = shape;
    this.wte = new Embedding(vocab, dim, GPT2);
    this.wpe = new Embedding(seq, dim, GPT2);
    this.blocks = new ModuleList(Array.from({ length: layers }, block));
    this.ln_f = new LayerNorm(dim);
    this.lm_head = tied ? null : new Linear(dim, vocab, { ...GPT2, bias: false });
    this.sharesParameter(this.wpe.weight);
    if (tied) this.sharesParameter(this.wte.weight);
  }

  override get embeddings(): readonly [Embedding, Embedding] {
    return [this.wte, this.wpe];
  }

  override get lastNorm(): LayerNorm {
    return this.ln_f;
  }

  override get tensorPlan(): TensorPlan {
    return {
      attention: 'blocks.*.attention',
      embedding: 'wte',
      isEmbeddingWhole: true,
      columns: { 'blocks.*.qkv': { heads: this.shape.heads, parts: 3 } },
      rows: ['blocks.*.proj'],
      heads: ['blocks.*.attention'],
      norms: ['blocks.*.ln1', 'blocks.*.ln2', 'ln_f'],
    };
  }

  /** Returns the sum of token and position embeddings. */
  override embed(ids: tf.Tensor): tf.Tensor {
    const ranges = this.positionsOf(ids.shape[1] ?? 0);
    this.#requirePositions(endOf(ranges));
    return tf.add(this.wte.apply(ids), rowsAt(this.wpe.weight.tensor, ranges));
  }

  #requirePositions(seq: number): void {
    const { path } = this.wpe;
    if (seq <= this.shape.seq) return;
    throw new ShardlabError(
      'SHAPE',
      `sequence length ${seq} exceeds the model's seq ${this.shape.seq} (the number of rows of ${path}, the position embedding); ` +
        `give ids of at most ${this.shape.seq} columns, or build the model with seq: ${seq}.`,
      { details: { seq, limit: this.shape.seq, module: path } },
    );
  }
}

/** The sizes of a GPT, and the seed of its initial values. */
export interface GptOptions extends GptShape {
  /** Default 0. */
  readonly seed?: number;
}

/**
 * A pre-norm GPT with learned positions and tanh-GELU. Shapes: ids [B, T] int32 → logits; with targets [B·T] int32 → scalar
 * loss.
 */
export class GPT extends GptModel<Block> {
  constructor(shape: GptShape) {
    super(shape, () => new Block(shape));
  }

  override get sizes(): GptConfig {
    return gptSchema.parse({ ...this.shape, kind: 'gpt' });
  }

  override get tensorPlan(): TensorPlan {
    const { columns, rows, ...plan } = super.tensorPlan;
    return { ...plan, columns: { ...columns, 'blocks.*.fc1': {} }, rows: [...rows, 'blocks.*.fc2'] };
  }
}

/**
 * Makes a GPT with the seed's initial values, which are equal on all ranks. Throws: CONFIG for sizes that are missing, unknown or
 * wrong, or that contradict each other.
 */
export function gpt(sizes: GptOptions): GPT {
  return new GPT(checkedShape('gpt', gptSchema, sizes)).manualSeed(sizes.seed ?? 0);
}

/** The sizes of a GPT with experts. */
export interface MoeShape extends GptShape, RouterOptions {
  /** The number of experts per block. */
  readonly experts: number;
}

/** The sizes of a GPT with experts, and the seed of its initial values and of its gates' noise. */
export interface MoeOptions extends MoeShape {
  /** Default 0. */
  readonly seed?: number;
}

/**
 * A GPT whose blocks have a mixture of experts in place of the feed-forward layer; a router chooses each token's experts. Under
 * tensor parallelism, every rank has all experts.
 */
export class MoeGPT extends GptModel<MoeBlock> {
  declare readonly shape: MoeShape;
  /** The seeds of the gates' noise. */
  readonly keys: TokenKeys;

  constructor(shape: MoeShape) {
    const { experts, router, topK, capacityFactor, auxLossWeight, biasUpdateRate, ...sizes } = shape;
    const keys = new TokenKeys();
    const routing = { router, topK, capacityFactor, auxLossWeight, biasUpdateRate };
    const mixture = { dim: shape.dim, experts, keys: keys.of, ...routing };
    super(shape, () => new MoeBlock(sizes, mixture));
    this.keys = keys;
  }

  override get sizes(): MoeConfig {
    return moeSchema.parse({ ...this.shape, kind: 'moe' });
  }

  /** The noise of a gate depends on all earlier tokens. */
  override readWhole(ids: tf.Tensor, ranges?: readonly PositionRange[]): void {
    this.keys.read(ids, ranges);
  }

  override forward(ids: tf.Tensor, targets?: tf.Tensor): tf.Tensor {
    const output = super.forward(ids, targets);
    return targets === undefined ? output : addAuxiliaryLosses(this, output);
  }
}

/**
 * Makes a GPT with experts; its initial values depend on the seed and are equal on all ranks. Throws: CONFIG as `gpt` does.
 */
export function moe(sizes: MoeOptions): MoeGPT {
  return new MoeGPT(checkedShape('moe', moeSchema, sizes)).manualSeed(sizes.seed ?? 0);
}
