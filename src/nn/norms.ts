import { layerNorm } from '../backend/ops';
import * as tf from '../core/tf';
import { constant } from './init';
import { Module } from './module';
import { Parameter } from './parameter';
import { requireExtents } from './require-extents';

/** Options of a `LayerNorm`, with torch's defaults. */
export interface LayerNormOptions<HasBias extends boolean = boolean> {
  /** Default 1e-5. */
  readonly eps?: number;
  /** Whether a bias is added to rows. Default true. */
  readonly bias?: HasBias;
}

/**
 * Normalizes rows, then scales and shifts them. Shapes: x […, dim] → the same; weight and bias [dim], initially 1 and
 * 0.
 * Source: torch.nn.LayerNorm. Throws: CONFIG for a size that is not a positive integer.
 */
export class LayerNorm<HasBias extends boolean = true> extends Module {
  readonly weight: Parameter;
  /** null without bias. */
  readonly bias: HasBias extends true ? Parameter : null;
  readonly #eps: number;

  constructor(dim: number, { eps = 1e-5, bias }: LayerNormOptions<HasBias> = {}) {
    super();
    requireExtents('nn.LayerNorm', { dim });
    this.#eps = eps;
    this.weight = Parameter.deferred([dim], constant(1));
    const added = bias === false ? null : Parameter.deferred([dim], constant(0));
    this.bias = added as typeof this.bias; // the class's type parameter says which of both
  }

  forward(x: tf.Tensor): tf.Tensor {
    const weight = this.weight.tensor;
    return layerNorm(x, weight, this.bias?.tensor ?? tf.zeros(weight.shape), this.#eps);
  }
}

/** Options of an `RMSNorm`, with torch's defaults. */
export interface RMSNormOptions {
  /** Default 2^-23, the machine epsilon of float32. */
  readonly eps?: number;
}

/**
 * Divides rows by their root mean square, then scales them. Shapes: x […, dim]; weight [dim], initially 1.
 * Source: Zhang and Sennrich 2019; torch.nn.RMSNorm. Throws: CONFIG for a size that is not a positive integer.
 */
export class RMSNorm extends Module {
  readonly weight: Parameter;
  readonly #eps: number;

  constructor(dim: number, { eps = 2 ** -23 }: RMSNormOptions = {}) {
    super();
    requireExtents('nn.RMSNorm', { dim });
    this.weight = Parameter.deferred([dim], constant(1));
    this.#eps = eps;
  }

  forward(x: tf.Tensor): tf.Tensor {
    const meanSquare = tf.mean(tf.square(x), -1, true);
    return tf.mul(tf.mul(x, tf.rsqrt(tf.add(meanSquare, this.#eps))), this.weight.tensor);
  }
}
