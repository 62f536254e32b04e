import * as tf from '@tensorflow/tfjs';
import { linear } from '../backend/ops';
import type { Init } from './init';
import { Module } from './module';
import type { Parameter } from './parameter';

/** GPT-2's standard deviation of initial weights. Source: Radford et al. 2019, section 2.3 and its published code. */
export const WEIGHT_STD = 0.02;

/** First values of a `Linear`. */
export interface LinearValues {
  /** Default 'normal', with `WEIGHT_STD`; 'xavier' is uniform in ±sqrt(6 / (inputs + outputs)). */
  readonly weight?: 'normal' | 'xavier' | 'zeros';
  /** Default 'uniform', in ±1/sqrt(inputs). */
  readonly bias?: 'uniform' | 'zeros';
}

/**
 * y = x Wᵀ + b.
 * Shapes: weight [outputs, inputs], bias [outputs], as torch.nn.Linear; x […, inputs] → […, outputs].
 * Source: bias uniform in ±1/sqrt(inputs), as torch.nn.Linear.reset_parameters; Glorot and Bengio 2010 ('xavier').
 */
export class Linear extends Module {
  readonly weight: Parameter;
  readonly bias: Parameter;

  constructor(inputs: number, outputs: number, init: Init, values: LinearValues = {}) {
    super();
    this.weight = this.addParameter('weight', firstWeight(inputs, outputs, init, values.weight));
    this.bias = this.addParameter(
      'bias',
      values.bias === 'zeros'
        ? init.constant([outputs], 0)
        : init.uniform('bias', [outputs], 1 / Math.sqrt(inputs)),
    );
  }

  forward(x: tf.Tensor): tf.Tensor {
    return linear(x, this.weight.tensor, this.bias.tensor);
  }
}

/** y = x Wᵀ. Shapes: weight [outputs, inputs]; x […, inputs] → […, outputs]. Source: torch.nn.Linear(bias=False). */
export class Projection extends Module {
  readonly weight: Parameter;

  constructor(inputs: number, outputs: number, init: Init) {
    super();
    this.weight = this.addParameter('weight', firstWeight(inputs, outputs, init));
  }

  forward(x: tf.Tensor): tf.Tensor {
    const [outputs = 0, inputs = 0] = this.weight.shape;
    const rows = x.rank === 2 ? x : tf.reshape(x, [-1, inputs]);
    const y = tf.matMul(rows, this.weight.tensor, false, true);
    return x.rank === 2 ? y : tf.reshape(y, [...x.shape.slice(0, -1), outputs]);
  }
}

function firstWeight(
  inputs: number,
  outputs: number,
  init: Init,
  how: LinearValues['weight'] = 'normal',
): Parameter {
  const shape = [outputs, inputs];
  switch (how) {
    case 'normal':
      return init.normal('weight', shape, WEIGHT_STD);
    case 'xavier':
      return init.uniform('weight', shape, Math.sqrt(6 / (inputs + outputs)));
    case 'zeros':
      return init.constant(shape, 0);
    default:
      return how satisfies never;
  }
}
