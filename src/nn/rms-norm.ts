import * as tf from '../core/tf';
import { constant } from './init';
import { Module } from './module';
import { Parameter } from './parameter';
import { requireExtents } from './require-extents';

/** Options of an `RMSNorm`, with torch's defaults. */
export interface RMSNormOptions {
  /** Default 2^-23, the step of float32 at 1. */
  readonly eps?: number;
}

/**
 * Divides rows by their root mean square, then scales them. Shapes: x […, dim]; weight [dim], initially 1.
 * Source: Zhang and Sennrich 2019; torch.nn.RMSNorm. Throws: CONFIG for a size that is not a whole number from 1.
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
