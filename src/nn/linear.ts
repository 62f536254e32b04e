import type * as tf from '@tensorflow/tfjs';
import { linear } from '../backend/ops';
import type { Init } from './init';
import { Module } from './module';
import type { Parameter } from './parameter';

/** GPT-2's standard deviation of initial weights. Source: Radford et al. 2019, section 2.3 and its published code. */
export const WEIGHT_STD = 0.02;

/**
 * y = x Wᵀ + b.
 * Shapes: weight [outputs, inputs], bias [outputs], as torch.nn.Linear; x […, inputs] → […, outputs].
 * Source: bias uniform in ±1/sqrt(inputs), as torch.nn.Linear.reset_parameters.
 */
export class Linear extends Module {
  readonly weight: Parameter;
  readonly bias: Parameter;

  constructor(inputs: number, outputs: number, init: Init) {
    super();
    this.weight = this.addParameter('weight', init.normal('weight', [outputs, inputs], WEIGHT_STD));
    this.bias = this.addParameter('bias', init.uniform('bias', [outputs], 1 / Math.sqrt(inputs)));
  }

  forward(x: tf.Tensor): tf.Tensor {
    return linear(x, this.weight.tensor, this.bias.tensor);
  }
}
