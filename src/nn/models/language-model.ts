import * as tf from '@tensorflow/tfjs';
import { softmaxCrossEntropy } from '../../backend/ops';
import type { AttentionKind } from '../../config/model-config';
import { Embedding } from '../embedding';
import type { Init } from '../init';
import { LayerNorm } from '../layer-norm';
import { WEIGHT_STD } from '../linear';
import { Module, ModuleList } from '../module';
import type { Parameter } from '../parameter';

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
 * Tokens and learned positions, blocks, a norm, and an output head tied to the token table or of its own ('lm_head').
 * Shapes: ids [B, T] int32, targets [B·T] int32 → mean cross-entropy over all tokens (scalar).
 * Source: Radford et al. 2019; initial values normal with std 0.02, LayerNorm 1 and 0.
 */
export abstract class LanguageModel<B extends Module> extends Module {
  readonly shape: GptShape;
  readonly wte: Embedding;
  readonly wpe: Embedding;
  readonly blocks: ModuleList<B>;
  readonly lnF: LayerNorm;
  /** null where the head is the token table. */
  readonly lmHead: LanguageHead | null;

  constructor(shape: GptShape, init: Init, block: (init: Init) => B) {
    super();
    this.shape = shape;
    const { layers, dim, vocab, seq, tied = true } = shape;
    this.wte = this.addChild('wte', new Embedding(vocab, dim, init.within('wte')));
    this.wpe = this.addChild('wpe', new Embedding(seq, dim, init.within('wpe')));
    const blocks = Array.from({ length: layers }, (_, i) => block(init.within('blocks').within(String(i))));
    this.blocks = this.addChild('blocks', new ModuleList(blocks));
    this.lnF = this.addChild('ln_f', new LayerNorm(dim, init));
    this.lmHead = tied
      ? null
      : this.addChild('lm_head', new LanguageHead(dim, vocab, init.within('lm_head')));
    this.sharesParameter(this.wpe.weight);
    if (tied) this.sharesParameter(this.wte.weight);
  }

  forward(ids: tf.Tensor, targets: tf.Tensor): tf.Tensor {
    const [, seq = 0] = ids.shape;
    const { weight } = this.wpe;
    const positions = seq === this.shape.seq ? weight.tensor : tf.slice(weight.tensor, 0, seq);
    let x: tf.Tensor = tf.add(this.wte.apply(ids), positions);
    for (const block of this.blocks) {
      const input = x;
      x = block.apply(input);
      // Backward keeps what it needs of it; what lies on the host is then not on the device.
      if (x !== input) input.dispose();
    }
    const rows = tf.reshape(this.lnF.apply(x), [ids.size, this.shape.dim]);
    const logits = this.lmHead?.apply(rows) ?? tf.matMul(rows, this.wte.weight.tensor, false, true);
    return softmaxCrossEntropy(logits, targets, { consumeLogits: true });
  }
}

/** A linear layer without bias from rows to logits. Shapes: rows [N, d], weight [vocab, d] → [N, vocab]. */
export class LanguageHead extends Module {
  readonly weight: Parameter;

  constructor(dim: number, vocab: number, init: Init) {
    super();
    this.weight = this.addParameter('weight', init.normal('weight', [vocab, dim], WEIGHT_STD));
  }

  forward(rows: tf.Tensor): tf.Tensor {
    return tf.matMul(rows, this.weight.tensor, false, true);
  }
}
