import type { BuiltInModel } from '../../config';
import { ShardlabError } from '../../core';
import * as tf from '../../core/tf';
import { softmaxCrossEntropy } from '../../engine';
import { applyInTurn, type ModuleList } from '../containers';
import type { Embedding } from '../embedding';
import type { Linear } from '../linear';
import { Module } from '../module';
import type { LayerNorm, RMSNorm } from '../norms';
import type { DividedSequences, PositionRange, PositionsOf } from '../positions';
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
const WHOLE_VOCABULARY: LogitsReader = {
  loss: (logits, targets) => softmaxCrossEntropy(logits, targets, { consumeLogits: true }),
  whole: (logits) => logits,
};

/** How tensor parallelism divides a model's layers, by the layers' names ('*' stands for one part of a name). */
export interface TensorPlan {
  /** The layers that contain heads; an error names them if the ranks do not divide the heads. */
  readonly attention: string;
  /** The embedding of tokens, which is divided by the vocabulary. */
  readonly embedding: string;
  /** Whether positions are added to the embedding's output, so that the output is whole under sequence parallelism too. */
  readonly isEmbeddingWhole: boolean;
  /** Matrices that are divided by their outputs: by heads, or between any two outputs. */
  readonly columns: Readonly<Record<string, { readonly heads?: number; readonly parts?: number }>>;
  /** Matrices that are divided by their inputs. */
  readonly rows: readonly string[];
  /** Modules without parameters that compute the heads of a rank. */
  readonly heads: readonly string[];
  /** Norms, which sequence parallelism computes for a part of the sequence. */
  readonly norms: readonly string[];
}

/** The sizes that every language model has. */
interface LanguageSizes {
  readonly dim: number;
  readonly heads: number;
  readonly vocab: number;
  readonly seq: number;
}

/**
 * A model of the next token: embeddings, layers, a norm, and an output head, which is the token embedding or a separate layer
 * ('lm_head'). The parts have names here, so that code that divides a model over ranks need not know its kind.
 * Shapes: ids [B, T] int32 → logits [B, T, vocab]; with targets [B·T] int32 → mean cross-entropy over all tokens (scalar).
 */
export abstract class LanguageModel extends Module {
  abstract readonly shape: LanguageSizes;
  /** null if the head is the token embedding. */
  abstract readonly lm_head: Linear<false> | null;
  /** Returns which positions of a sequence an input has. Context parallelism and packing set this field. */
  abstract positionsOf: PositionsOf;
  /** Divides sequences over ranks; null if every rank has whole sequences. Context parallelism sets this field. */
  sequences: DividedSequences | null = null;
  /** The number of ranks over which sequence parallelism divides the layers' inputs. */
  sequenceRanks = 1;
  /** The functions that read logits. Tensor parallelism replaces them by functions for a part of the vocabulary. */
  vocabulary = WHOLE_VOCABULARY;

  /** The sizes as a setting `model`, with defaults. */
  abstract get sizes(): BuiltInModel;

  /** The model's layers, of which each stage of a pipeline has some. */
  abstract get blocks(): ModuleList;

  /** The embedding of tokens, whose weight a tied head shares, then the other modules that `embed` reads. */
  abstract get embeddings(): readonly [Embedding, ...Module[]];

  /** The norm before the head. */
  abstract get lastNorm(): LayerNorm | RMSNorm;

  /** How tensor parallelism divides the model; null if it does not. */
  get tensorPlan(): TensorPlan | null {
    return null;
  }

  /** Returns the input of the first layer: ids [B, T] → [B, T, d]. */
  abstract embed(ids: tf.Tensor): tf.Tensor;

  /** Returns what every layer takes beside its input x [B, T, d], for T positions. */
  besides(_positions: number): readonly tf.Tensor[] {
    return [];
  }

  /** Reads whole sequences, before context parallelism cuts them. `ranges` are this rank's positions; default: all. */
  readWhole(_ids: tf.Tensor, _ranges?: readonly PositionRange[]): void {}

  /** Returns the output of the last norm: ids [B, T] → [B, T, d]. */
  normed(ids: tf.Tensor): tf.Tensor {
    const x = applyInTurn(this.blocks, this.embed(ids), ...this.besides(ids.shape[1] ?? 0));
    return this.lastNorm.apply(x);
  }

  forward(ids: tf.Tensor, targets?: tf.Tensor): tf.Tensor {
    requireTokens(this.constructor.name, ids, targets);
    if (this.sequences === null) this.readWhole(ids);
    return outputOf(this, this.normed(ids), targets);
  }

  /** Returns the logits, or the loss, of the last layer's output x [B, T, d]. */
  head(x: tf.Tensor, targets?: tf.Tensor): tf.Tensor {
    return outputOf(this, this.lastNorm.apply(x), targets);
  }
}

/**
 * Returns the logits of the last norm's output or, if there are targets, the mean cross-entropy. Shapes: x [B, T, d] →
 * [B, T, vocab]; targets [B·T] → scalar.
 */
function outputOf(
  { lm_head, embeddings, vocabulary }: LanguageModel,
  x: tf.Tensor,
  targets: tf.Tensor | undefined,
): tf.Tensor {
  const rows = tf.reshape(x, [-1, x.shape.at(-1) ?? 1]);
  const logits = lm_head?.apply(rows) ?? tf.matMul(rows, embeddings[0].weight.tensor, false, true);
  if (targets !== undefined) return vocabulary.loss(logits, targets);
  const whole = vocabulary.whole(logits);
  return tf.reshape(whole, [...x.shape.slice(0, -1), whole.shape[1] ?? 1]);
}

/**
 * Throws: SHAPE unless `ids` is a batch of tokens and `targets`, if given, has one target per token. `model` is the model's
 * name, such as 'GPT'.
 */
function requireTokens(model: string, ids: unknown, targets: unknown): void {
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
