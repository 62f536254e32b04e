import * as tf from '@tensorflow/tfjs';
import { softmaxCrossEntropy } from '../../backend/ops';
import { ConfigError } from '../../core/errors';
import { Block } from '../block';
import { Embedding } from '../embedding';
import { type Init, initializer } from '../init';
import { LayerNorm } from '../layer-norm';
import { Module, ModuleList } from '../module';

/** The size of a GPT. */
export interface GptShape {
  readonly layers: number;
  readonly dim: number;
  readonly heads: number;
  readonly vocab: number;
  /** Positions. */
  readonly seq: number;
}

/** A GPT's size and the seed of its initial values. */
export interface GptOptions extends GptShape {
  /** Default 0. */
  readonly seed?: number;
}

/**
 * A pre-norm GPT with learned positions, tanh-GELU and the output head tied to the token table.
 * Shapes: ids [B, T] int32, targets [B·T] int32 → mean cross-entropy over all tokens (scalar).
 * Source: Radford et al. 2019; initial values normal with std 0.02, LayerNorm 1 and 0.
 */
export class GPT extends Module {
  readonly shape: GptShape;
  readonly wte: Embedding;
  readonly wpe: Embedding;
  readonly blocks: ModuleList<Block>;
  readonly lnF: LayerNorm;

  constructor(shape: GptShape, init: Init) {
    super();
    this.shape = shape;
    const { layers, dim, heads, vocab, seq } = shape;
    this.wte = this.addChild('wte', new Embedding(vocab, dim, init.within('wte')));
    this.wpe = this.addChild('wpe', new Embedding(seq, dim, init.within('wpe')));
    const blocks = Array.from(
      { length: layers },
      (_, i) => new Block(dim, heads, init.within('blocks').within(String(i))),
    );
    this.blocks = this.addChild('blocks', new ModuleList(blocks));
    this.lnF = this.addChild('ln_f', new LayerNorm(dim, init));
  }

  forward(ids: tf.Tensor, targets: tf.Tensor): tf.Tensor {
    const [, seq = 0] = ids.shape;
    const { weight } = this.wpe;
    const positions = seq === this.shape.seq ? weight.tensor : tf.slice(weight.tensor, 0, seq);
    let x: tf.Tensor = tf.add(this.wte.apply(ids), positions);
    for (const block of this.blocks) x = block.apply(x);
    const rows = tf.reshape(this.lnF.apply(x), [ids.size, this.shape.dim]);
    const logits = tf.matMul(rows, this.wte.weight.tensor, false, true);
    return softmaxCrossEntropy(logits, targets, { consumeLogits: true });
  }
}

/** A GPT with seeded initial values: the same on every rank. Throws: CONFIG when sizes do not fit. */
export function gpt(options: GptOptions): GPT {
  const { seed = 0, ...shape } = options;
  for (const [name, value] of Object.entries(shape)) {
    if (!Number.isInteger(value) || value < 1) {
      throw new ConfigError(`gpt: ${name} is ${value}; give a whole number of at least 1`);
    }
  }
  if (shape.dim % shape.heads !== 0) {
    throw new ConfigError(
      `gpt: dim ${shape.dim} is not divisible by heads ${shape.heads}; change one of them`,
    );
  }
  return new GPT(shape, initializer(seed));
}
