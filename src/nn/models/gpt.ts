import { softmaxCrossEntropy } from '../../backend/ops';
import { type AttentionKind, gptSchema, moeSchema } from '../../config/families/kinds';
import type { RouterOptions } from '../../config/router-options';
import { ShardlabError } from '../../core/errors';
import * as tf from '../../core/tf';
import { Block, MoeBlock } from '../block';
import { applyInTurn, ModuleList } from '../containers';
import { Embedding } from '../embedding';
import { GPT2, Linear } from '../linear';
import { Module } from '../module';
import { addAuxiliaryLosses } from '../moe/mixture-of-experts';
import { TokenKeys } from '../moe/row-keys';
import { LayerNorm } from '../norms';
import { Parameter } from '../parameter';
import { type DividedSequences, endOf, fromBegin, type PositionsOf, rowsAt } from '../positions';
import { checkedShape } from './checked-shape';
import { describeInput } from './require-inputs';

/**
 * Functions that read logits. A rank has the logits of the whole vocabulary or, under tensor parallelism, of a part of the
 * vocabulary.
 */
export interface LogitsReader {
  /** Returns the mean cross-entropy over all rows. Shapes: logits [N, vocab or a part], targets [N] → scalar. */
  loss(logits: tf.Tensor, targets: tf.Tensor): tf.Tensor;
  /** Returns the logits of the whole vocabulary. Shapes: [N, vocab or a part] → [N, vocab]. */
  whole(logits: tf.Tensor): tf.Tensor;
}

/** Reads the logits of the whole vocabulary. */
export const WHOLE_VOCABULARY: LogitsReader = {
  loss: (logits, targets) => softmaxCrossEntropy(logits, targets, { consumeLogits: true }),
  whole: (logits) => logits,
};

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
 * A language model: token and position embeddings, blocks, a norm, and an output head, which is the token embedding (tied) or a
 * separate layer ('lm_head').
 * Shapes: ids [B, T] int32 → logits [B, T, vocab]; with targets [B·T] int32 → mean cross-entropy over all tokens (scalar).
 * Source: Radford et al. 2019; matrices are initially normal with std 0.02, LayerNorm's weight is 1, and its bias is 0.
 */
abstract class LanguageModel<B extends Module> extends Module {
  readonly shape: GptShape;
  readonly wte: Embedding;
  readonly wpe: Embedding;
  readonly blocks: ModuleList<B>;
  readonly ln_f: LayerNorm;
  /** null if the head is the token embedding. */
  readonly lm_head: Linear<false> | null;
  positionsOf: PositionsOf = fromBegin;
  /** Divides sequences over ranks; null if every rank has whole sequences. Context parallelism sets this field. */
  sequences: DividedSequences | null = null;
  /** The number of ranks over which sequence parallelism divides the blocks' inputs. */
  sequenceRanks = 1;
  /** The functions that read logits. Tensor parallelism replaces them by functions for a part of the vocabulary. */
  vocabulary = WHOLE_VOCABULARY;

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

  forward(ids: tf.Tensor, targets?: tf.Tensor): tf.Tensor {
    requireTokens(this.constructor.name, ids, targets);
    return this.head(applyInTurn(this.blocks, this.embed(ids)), targets);
  }

  /** Returns the sum of token and position embeddings, which is the blocks' input: ids [B, T] → [B, T, d]. */
  embed(ids: tf.Tensor): tf.Tensor {
    const ranges = this.positionsOf(ids.shape[1] ?? 0);
    this.#requirePositions(endOf(ranges));
    return tf.add(this.wte.apply(ids), rowsAt(this.wpe.weight.tensor, ranges));
  }

  /** Returns the logits, or the loss, of the blocks' output x [B, T, d], as `headOutput` does. */
  head(x: tf.Tensor, targets?: tf.Tensor): tf.Tensor {
    return headOutput(this.ln_f.apply(x), targets, this.lm_head ?? this.wte.weight, this.vocabulary);
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
export class GPT extends LanguageModel<Block> {
  constructor(shape: GptShape) {
    super(shape, () => new Block(shape));
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

/** A GPT whose blocks have a mixture of experts in place of the feed-forward layer; a router chooses each token's experts. */
export class MoeGPT extends LanguageModel<MoeBlock> {
  /**
   * The seeds of the gates' noise. Under context parallelism, the code that divides the sequences reads the seeds first, while
   * the sequences are whole.
   */
  readonly keys: TokenKeys;

  constructor({ experts, router, topK, capacityFactor, auxLossWeight, biasUpdateRate, ...shape }: MoeShape) {
    const keys = new TokenKeys();
    const routing = { router, topK, capacityFactor, auxLossWeight, biasUpdateRate };
    const mixture = { dim: shape.dim, experts, keys: keys.of, ...routing };
    super(shape, () => new MoeBlock(shape, mixture));
    this.keys = keys;
  }

  override forward(ids: tf.Tensor, targets?: tf.Tensor): tf.Tensor {
    requireTokens(this.constructor.name, ids, targets);
    if (this.sequences === null) this.keys.read(ids);
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

/**
 * Returns a language model's logits, or the mean cross-entropy if there are targets; `head` is a layer or the token embedding.
 * Shapes: x [B, T, d] → [B, T, vocab]; targets [B·T] → scalar.
 */
export function headOutput(
  x: tf.Tensor,
  targets: tf.Tensor | undefined,
  head: Linear<false> | Parameter,
  vocabulary: LogitsReader,
): tf.Tensor {
  const rows = tf.reshape(x, [-1, x.shape.at(-1) ?? 1]);
  const logits = head instanceof Parameter ? tf.matMul(rows, head.tensor, false, true) : head.apply(rows);
  if (targets !== undefined) return vocabulary.loss(logits, targets);
  const whole = vocabulary.whole(logits);
  return tf.reshape(whole, [...x.shape.slice(0, -1), whole.shape[1] ?? 1]);
}

/**
 * Throws: SHAPE unless `ids` is a batch of tokens and `targets`, if given, has one target per token. `model` is the model's
 * name, such as 'GPT'.
 */
export function requireTokens(model: string, ids: unknown, targets: unknown): void {
  const isBatch = ids instanceof tf.Tensor && ids.rank === 2 && ids.dtype === 'int32';
  const fits =
    targets instanceof tf.Tensor && isBatch && targets.size === ids.size && targets.dtype === 'int32';
  if (isBatch && (targets === undefined || fits)) return;
  throw new ShardlabError(
    'SHAPE',
    `${model} takes ids [B, T] int32 and gives logits [B, T, vocab]; with targets [B·T] int32 it gives the mean loss. It was ` +
      `given ids ${describeInput(ids)}${targets === undefined ? '' : ` and targets ${describeInput(targets)}`}; a tensor becomes int32 ` +
      "by tf.tensor(values, shape, 'int32') or tf.cast(tensor, 'int32').",
  );
}
