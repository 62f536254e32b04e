import { callback, fieldsOf, index, type OptionKinds, orNull, requireOptions } from '../config';
import { ConfigError } from '../core';
import type * as tf from '../core/tf';
import { embedding } from '../engine';
import { type FirstValues, normal } from './init';
import { Module } from './module';
import { Parameter } from './parameter';
import { requireExtents } from './require-extents';
import { type TorchLayer, torchLayer } from './torch-layer';

/** Options of an `Embedding`. */
export interface EmbeddingOptions {
  /** The id of padding, whose row is initially 0 and gets no gradient. A negative id counts from the end. Default: none. */
  readonly paddingIdx?: number | null;
  /** The initial values of the weight. Default: standard normal. */
  readonly init?: { readonly weight?: FirstValues };
}

const OPTIONS: OptionKinds<EmbeddingOptions> = {
  paddingIdx: orNull(index),
  init: fieldsOf(['weight'], callback),
};

/**
 * Returns the weight's row for each id. Shapes: weight [rows, dim], ids int32 […] → […, dim]. Source: torch.nn.Embedding,
 * including its initial values. Throws: CONFIG for sizes that are not positive integers, or a padding row that does not exist.
 */
export class Embedding extends Module {
  /** A program may assign another layer's weight to this field; both layers then share the weight. */
  weight: Parameter;
  /** The id of padding, at least 0; undefined if there is no padding. */
  readonly paddingIdx: number | undefined;

  constructor(rows: number, dim: number, options: EmbeddingOptions = {}) {
    const { paddingIdx = null, init = {} } = requireOptions('nn.Embedding', options, OPTIONS);
    super();
    requireExtents('nn.Embedding', { rows, dim });
    const first = init.weight ?? normal();
    if (paddingIdx === null) {
      this.weight = Parameter.deferred([rows, dim], first);
      return;
    }
    if (!Number.isInteger(paddingIdx) || paddingIdx < -rows || paddingIdx >= rows)
      throw new ConfigError(`nn.Embedding: paddingIdx ${paddingIdx} is not one of the ${rows} rows`);
    this.paddingIdx = paddingIdx < 0 ? rows + paddingIdx : paddingIdx;
    this.weight = Parameter.deferred([rows, dim], withoutRow(first, this.paddingIdx * dim, dim));
  }

  override get torchLayer(): TorchLayer {
    return torchLayer('Embedding', this.weight.shape, { padding_idx: [this.paddingIdx, null] });
  }

  forward(ids: tf.Tensor): tf.Tensor {
    return embedding(this.weight.tensor, ids, this.paddingIdx);
  }
}

/** Returns the initial values `first`, with 0 for the `length` elements from `begin` on. */
function withoutRow(first: FirstValues, begin: number, length: number): FirstValues {
  return (place) => {
    const source = first(place);
    return {
      fill(start, target) {
        source.fill(start, target);
        const [from, to] = [begin - start, begin + length - start].map((at) => Math.max(0, at));
        target.fill(0, from, to);
      },
    };
  };
}
