import { softmaxCrossEntropy } from '../../backend/ops';
import type { AttentionKind } from '../../config/settings/model';
import { ShardlabError } from '../../core/errors';
import * as tf from '../../core/tf';
import { applyInTurn, ModuleList } from '../containers';
import { Embedding } from '../embedding';
import { LayerNorm } from '../layer-norm';
import { GPT2, Linear } from '../linear';
import { Module } from '../module';
import { Parameter } from '../parameter';

/** The size of a GPT. */
export interface GptShape {
  readonly layers: number;
  readonly dim: number;
  readonly heads: number;
  readonly vocab: number;
  /** Positions. */
  readonly seq: number;
  /** Width between the matrices of a block's feed-forward layer. Default 4 · dim. */
  readonly ffn?: number | undefined;
  /** How attention is computed. Default 'eager'. */
  readonly attention?: AttentionKind | undefined;
  /** Whether the output head is the token table. Default true. */
  readonly tied?: boolean | undefined;
}

/**
 * Tokens and learned positions, blocks, a norm, and an output head: the token table (tied) or a separate layer
 * ('lm_head').
 * Shapes: ids [B, T] int32, targets [B·T] int32 → mean cross-entropy over all tokens (scalar).
 * Source: Radford et al. 2019; initial values normal with std 0.02, LayerNorm 1 and 0.
 */
export abstract class LanguageModel<B extends Module> extends Module {
  readonly shape: GptShape;
  readonly wte: Embedding;
  readonly wpe: Embedding;
  readonly blocks: ModuleList<B>;
  readonly ln_f: LayerNorm;
  /** null if the head is the token table. */
  readonly lm_head: Linear<false> | null;

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

  forward(ids: tf.Tensor, targets: tf.Tensor): tf.Tensor {
    requireTokens(this.constructor.name, ids, targets);
    const [, seq = 0] = ids.shape;
    this.#requirePositions(seq);
    const { weight } = this.wpe;
    const positions = seq === this.shape.seq ? weight.tensor : tf.slice(weight.tensor, 0, seq);
    const x = applyInTurn(this.blocks, tf.add(this.wte.apply(ids), positions));
    return tokenLoss(this.ln_f.apply(x), targets, this.lm_head ?? this.wte.weight);
  }

  #requirePositions(seq: number): void {
    const { path } = this.wpe;
    if (seq <= this.shape.seq) return;
    throw new ShardlabError(
      'SHAPE',
      `sequence length ${seq} exceeds the model's seq ${this.shape.seq} (${path}, the table of positions, has no more rows); ` +
        `give ids of at most ${this.shape.seq} columns, or build the model with seq: ${seq}.`,
      { details: { seq, limit: this.shape.seq, module: path } },
    );
  }
}

/** The mean cross-entropy of the head's logits: a layer, or the token table. Shapes: x [B, T, d], targets [B·T]. */
export function tokenLoss(x: tf.Tensor, targets: tf.Tensor, head: Module | Parameter): tf.Tensor {
  const rows = tf.reshape(x, [-1, x.shape.at(-1) ?? 1]);
  const logits = head instanceof Parameter ? tf.matMul(rows, head.tensor, false, true) : head.apply(rows);
  return softmaxCrossEntropy(logits, targets, { consumeLogits: true });
}

/** Throws: SHAPE unless the values are a batch of tokens and its targets. `model` is the model's name, as 'GPT'. */
export function requireTokens(model: string, ids: unknown, targets: unknown): void {
  if (ids instanceof tf.Tensor && ids.rank === 2 && targets instanceof tf.Tensor && targets.size === ids.size)
    return;
  throw new ShardlabError(
    'SHAPE',
    `${model} takes ids [B, T] and targets [B·T], both int32 tensors, and gives the mean loss; it was given ids ` +
      `${described(ids)} and targets ${described(targets)}.`,
  );
}

function described(value: unknown): string {
  return value instanceof tf.Tensor ? `${value.dtype} [${value.shape}]` : typeof value;
}
