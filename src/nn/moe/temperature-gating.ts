import { callback, finite, index, MOST_EXPERTS, type OptionKinds, requireOptions } from '../../config';
import { ConfigError, seeded, withGradients } from '../../core';
import * as tf from '../../core/tf';
import { constant } from '../init';
import { GPT2, Linear } from '../linear';
import { Module } from '../module';
import { Parameter } from '../parameter';
import { requireAtMost, requireExtents } from '../require-extents';
import { mixed, type RowKeys, valueKeys } from './row-keys';

/** Options of `TemperatureGating`. */
export interface TemperatureGatingOptions {
  /** The initial value of the learned temperature. Default 1. */
  readonly initTemp?: number;
  /** The seed of initial values and noise. Default: the model's seed. */
  readonly seed?: number;
  /** The function that computes the seed of each row's noise. Default: the seed is computed from the row's values. */
  readonly keys?: RowKeys;
}

const OPTIONS: OptionKinds<TemperatureGatingOptions> = { initTemp: finite, seed: index, keys: callback };

/**
 * Chooses one of several experts per row: divides the logits of a linear gate by a learned temperature, and applies hard
 * Gumbel-softmax. The result is one-hot; backward uses the gradient of the soft probabilities (straight-through).
 * Shapes: x […, inputDim] → […, numExperts]. Source: Jang et al. 2017; torch.nn.functional.gumbel_softmax(hard=True).
 * Throws: CONFIG for sizes that are not positive integers, or a temperature that is not positive.
 */
export class TemperatureGating extends Module {
  readonly gate: Linear;
  readonly temperature: Parameter;
  readonly #keys: RowKeys;

  constructor(inputDim: number, numExperts: number, options: TemperatureGatingOptions = {}) {
    super();
    const { initTemp = 1, seed, keys = valueKeys } = requireOptions('TemperatureGating', options, OPTIONS);
    requireExtents('TemperatureGating', { inputDim, numExperts });
    requireAtMost('TemperatureGating', 'numExperts', numExperts, MOST_EXPERTS);
    if (!(initTemp > 0)) {
      throw new ConfigError(
        `TemperatureGating: initTemp is ${initTemp}; logits are divided by it, so give more than 0`,
      );
    }
    this.#keys = keys;
    this.gate = new Linear(inputDim, numExperts, GPT2);
    this.temperature = Parameter.deferred([1], constant(initTemp));
    if (seed !== undefined) this.manualSeed(seed);
  }

  forward(x: tf.Tensor): tf.Tensor {
    const inputs = x.shape.at(-1) ?? 1;
    const rows = x.rank === 2 ? x : tf.reshape(x, [-1, inputs]);
    const logits = tf.div(this.gate.apply(rows), this.temperature.tensor);
    const soft = tf.softmax(tf.add(logits, this.noiseOf(rows)));
    const hard = straightThrough(soft);
    return x.rank === 2 ? hard : tf.reshape(hard, [...x.shape.slice(0, -1), hard.shape[1] ?? 1]);
  }

  /** Returns the Gumbel noise of rows: [rows, experts]. See [Note: noise by row]. */
  noiseOf(rows: tf.Tensor): tf.Tensor {
    const [numExperts = 1] = this.gate.weight.shape;
    const salt = seeded(this.seed, 'gating', this.path).integer(2 ** 32);
    const keys = this.#keys(rows);
    const noise = new Float32Array(keys.length * numExperts);
    keys.forEach((key, row) => {
      for (let expert = 0; expert < numExperts; expert++) {
        // The value is in (0, 1), so both logarithms are finite.
        const uniform = (mixed(mixed(key ^ salt) + expert) + 0.5) / 2 ** 32;
        noise[row * numExperts + expert] = -Math.log(-Math.log(uniform));
      }
    });
    return tf.tensor2d(noise, [keys.length, numExperts]);
  }
}

/** Returns 1 at each row's largest value and 0 elsewhere; the gradient passes unchanged. */
function straightThrough(soft: tf.Tensor): tf.Tensor {
  return withGradients([soft], () => {
    const indices = tf.argMax(soft, -1);
    // The result is cast, because tfjs's wasm kernel of oneHot writes integer bits even if the dtype is float32.
    const value = tf.cast(tf.oneHot(indices, soft.shape[1] ?? 1), 'float32');
    return { value, gradients: (dy) => [dy] };
  });
}
