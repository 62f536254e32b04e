import { embedding } from '../backend/ops';
import type * as tf from '../core/tf';
import { type FirstValues, normal } from './init';
import { Module } from './module';
import { Parameter } from './parameter';
import { requireExtents } from './require-extents';

/** Options of an `Embedding`. */
export interface EmbeddingOptions {
  /** First values; default standard normal. */
  readonly init?: { readonly weight?: FirstValues };
}

/**
 * A table's rows by index. Shapes: weight [rows, dim], ids int32 […] → […, dim]. Source: torch.nn.Embedding, including
 * its first values. Throws: CONFIG for sizes that are not whole numbers from 1.
 */
export class Embedding extends Module {
  readonly weight: Parameter;

  constructor(rows: number, dim: number, { init = {} }: EmbeddingOptions = {}) {
    super();
    requireExtents('nn.Embedding', { rows, dim });
    this.weight = Parameter.deferred([rows, dim], init.weight ?? normal());
  }

  forward(ids: tf.Tensor): tf.Tensor {
    return embedding(this.weight.tensor, ids);
  }
}
