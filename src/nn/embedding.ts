import { embedding } from '../backend/ops';
import type * as tf from '../core/tf';
import { type FirstValues, normal } from './init';
import { Module } from './module';
import { Parameter } from './parameter';
import { requireExtents } from './require-extents';

/** Options of an `Embedding`. */
export interface EmbeddingOptions {
  /** Initial values; default standard normal. */
  readonly init?: { readonly weight?: FirstValues };
}

/**
 * Returns the weight's row for each id. Shapes: weight [rows, dim], ids int32 […] → […, dim]. Source: torch.nn.Embedding,
 * including its initial values. Throws: CONFIG for sizes that are not positive integers.
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
