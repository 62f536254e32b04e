import * as tf from '@tensorflow/tfjs';
import type { Init } from './init';
import { Module } from './module';
import type { Parameter } from './parameter';

/**
 * Divides rows by their root mean square, then scales them. Shapes: x […, dim]; weight 1 at first, [dim].
 * Source: Zhang and Sennrich 2019.
 */
export class RMSNorm extends Module {
  readonly weight: Parameter;
  readonly #eps: number;

  constructor(dim: number, eps: number, init: Init) {
    super();
    this.weight = this.addParameter('weight', init.constant([dim], 1));
    this.#eps = eps;
  }

  forward(x: tf.Tensor): tf.Tensor {
    const meanSquare = tf.mean(tf.square(x), -1, true);
    return tf.mul(tf.mul(x, tf.rsqrt(tf.add(meanSquare, this.#eps))), this.weight.tensor);
  }
}
