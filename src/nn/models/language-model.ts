import { softmaxCrossEntropy } from '../../backend/ops';
import type { AttentionKind } from '../../config/settings/model';
import { ShardlabError } from '../../core/errors';
import * as tf from '../../core/tf';
import { ModuleList } from '../containers';
import { Embedding } from '../embedding';
import { LayerNorm } from '../layer-norm';
import { GPT2, Linear } from '../linear';
import { Module } from '../module';
import { requireTokens } from '../require-tokens';

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
    let x: tf.Tensor = tf.add(this.wte.apply(ids), positions);
    for (const block of this.blocks) {
      const input = x;
      x = block.apply(input);
      // Backward has saved what it needs; an offloaded copy must not stay on the device.
      if (x !== input) input.dispose();
    }
    const rows = tf.reshape(this.ln_f.apply(x), [ids.size, this.shape.dim]);
    const logits = this.lm_head?.apply(rows) ?? tf.matMul(rows, this.wte.weight.tensor, false, true);
    return softmaxCrossEntropy(logits, targets, { consumeLogits: true });
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
