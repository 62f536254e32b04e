import { type T5Config, t5Schema } from '../../config';
import * as tf from '../../core/tf';
import { applyInTurn, ModuleList } from '../containers';
import { Embedding } from '../embedding';
import { GPT2 } from '../linear';
import { Module } from '../module';
import { RMSNorm } from '../norms';
import { T5Block } from '../t5-block';
import { checkedShape, type ShapeOptions } from './checked-shape';
import { requireInputs } from './require-inputs';

/** The sizes of an encoder, and the seed of its initial values. */
export type T5EncoderOptions = ShapeOptions<typeof t5Schema>;

/**
 * The number that is added to scores of padding, so that softmax returns 0. Source: Hugging Face's and Wan2.2's masks, in
 * float32.
 */
const HIDDEN = -1e9;

/**
 * The encoder of text prompts in Wan2.2 (UMT5), with the same parameter names.
 * Shapes: ids [B, T] int32, mask [B, T] float32 (0 for padding; default: no padding) → [B, T, d].
 * Source: Raffel et al. 2020; Chung et al. 2023 (UMT5).
 */
export class T5Encoder extends Module {
  readonly shape: T5Config;
  readonly token_embedding: Embedding;
  readonly blocks: ModuleList<T5Block>;
  readonly norm: RMSNorm;

  constructor(shape: T5Config) {
    super();
    this.shape = shape;
    const { layers, dim, vocab, normEps } = shape;
    const block = { ...shape, attnDim: shape.attnDim ?? dim };
    this.token_embedding = new Embedding(vocab, dim, GPT2);
    this.blocks = new ModuleList(Array.from({ length: layers }, () => new T5Block(block)));
    this.norm = new RMSNorm(dim, { eps: normEps });
  }

  forward(ids: tf.Tensor, mask?: tf.Tensor): tf.Tensor {
    const [batch = 0, positions = 0] = ids?.shape ?? [];
    const known =
      mask === undefined ? {} : { mask: { dtype: 'float32', shape: [batch, positions] } as const };
    requireInputs('T5Encoder', { ids: { dtype: 'int32', shape: ['B', 'T'] }, ...known }, { ids, mask });
    const seen = mask ?? tf.ones([batch, positions]);
    const hidden = tf.reshape(tf.mul(tf.sub(1, seen), HIDDEN), [batch, 1, 1, positions]);
    return this.norm.apply(applyInTurn(this.blocks, this.token_embedding.apply(ids), hidden));
  }
}

/** Makes an encoder with the seed's initial values, which are equal on all ranks. Throws: CONFIG if sizes contradict each other. */
export function t5Encoder(sizes: T5EncoderOptions): T5Encoder {
  return new T5Encoder(checkedShape('t5-encoder', t5Schema, sizes)).manualSeed(sizes.seed ?? 0);
}
