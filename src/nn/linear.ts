import { callback, fieldsOf, flag, type OptionKinds, requireOptions } from '../config';
import * as tf from '../core/tf';
import { linear } from '../engine';
import { type FirstValues, normal, uniform } from './init';
import { Module } from './module';
import { Parameter } from './parameter';
import { requireExtents } from './require-extents';
import { type TorchLayer, torchLayer } from './torch-layer';

/** Options of a `Linear`. */
export interface LinearOptions<HasBias extends boolean = boolean> {
  /** Whether a bias is added. Default true. */
  readonly bias?: HasBias;
  /** The initial values of weight and bias. Default for both: uniform in ±1/sqrt(inputs). */
  readonly init?: { readonly weight?: FirstValues; readonly bias?: FirstValues };
}

const OPTIONS: OptionKinds<LinearOptions> = { bias: flag, init: fieldsOf(['weight', 'bias'], callback) };

/**
 * The initial values of GPT-2's matrices, which Llama and T5 also use: normal with a standard deviation of 0.02.
 * Source: Radford et al. 2019, section 2.3 and the published code.
 */
export const GPT2 = { init: { weight: normal(0.02) } } as const;

/**
 * Returns y = x Wᵀ + b.
 * Shapes: weight [outputs, inputs], bias [outputs]; x […, inputs] → […, outputs].
 * Source: torch.nn.Linear, including its initial values. Throws: CONFIG for sizes that are not positive integers.
 */
export class Linear<HasBias extends boolean = true> extends Module {
  /** A program may assign another layer's weight to this field; both layers then share the weight. */
  weight: Parameter;
  /** null if the layer has no bias. */
  readonly bias: HasBias extends true ? Parameter : null;

  constructor(inputs: number, outputs: number, options: LinearOptions<HasBias> = {}) {
    super();
    const { bias = true, init = {} } = requireOptions('nn.Linear', options, OPTIONS);
    requireExtents('nn.Linear', { inputs, outputs });
    const within = uniform(1 / Math.sqrt(inputs));
    this.weight = Parameter.deferred([outputs, inputs], init.weight ?? within);
    const added = bias ? Parameter.deferred([outputs], init.bias ?? within) : null;
    this.bias = added as typeof this.bias; // `HasBias` says whether the bias is null
  }

  override get torchLayer(): TorchLayer {
    return torchLayer('Linear', this.weight.shape.toReversed(), { bias: [this.bias !== null, true] });
  }

  forward(x: tf.Tensor): tf.Tensor {
    return affine(x, this.weight.tensor, this.bias?.tensor);
  }
}

/** Returns x Wᵀ + b, or x Wᵀ without a bias. Shapes: x […, inputs], weight [outputs, inputs] → […, outputs]. */
export function affine(x: tf.Tensor, weight: tf.Tensor, bias?: tf.Tensor): tf.Tensor {
  if (bias !== undefined) return linear(x, weight, bias);
  const [outputs = 0, inputs = 0] = weight.shape;
  const rows = x.rank === 2 ? x : tf.reshape(x, [-1, inputs]);
  const y = tf.matMul(rows, weight, false, true);
  return x.rank === 2 ? y : tf.reshape(y, [...x.shape.slice(0, -1), outputs]);
}
