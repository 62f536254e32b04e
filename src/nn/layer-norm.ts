import type * as tf from '@tensorflow/tfjs';
import { layerNorm } from '../backend/ops';
import type { Init } from './init';
import { Module } from './module';
import type { Parameter } from './parameter';

/** torch.nn.LayerNorm's default. */
const EPS = 1e-5;

/** Normalizes rows, then scales and shifts them. Shapes: x [rows, dim]; weight 1 and bias 0 at first, [dim]. */
export class LayerNorm extends Module {
  readonly weight: Parameter;
  readonly bias: Parameter;
  readonly #eps: number;

  constructor(dim: number, init: Init, eps = EPS) {
    super();
    this.#eps = eps;
    this.weight = this.addParameter('weight', init.constant([dim], 1));
    this.bias = this.addParameter('bias', init.constant([dim], 0));
  }

  forward(x: tf.Tensor): tf.Tensor {
    return layerNorm(x, this.weight.tensor, this.bias.tensor, this.#eps);
  }
}
