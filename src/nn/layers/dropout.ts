import { currentEngine } from '../../backend/current-engine';
import { ConfigError } from '../../core/errors';
import * as tf from '../../core/tf';
import { Module } from '../module';

/**
 * In training, sets each element to 0 with probability p, and divides the others by 1 − p; in `eval` returns x. Each rank and
 * step draws other elements; a forward that runs again in backward draws the same. Source: Srivastava et al. 2014;
 * torch.nn.Dropout. Throws: CONFIG if p is not from 0 to 1.
 * @example
 * const dropout = new nn.Dropout(0.1);
 */
export class Dropout extends Module {
  readonly p: number;

  constructor(p = 0.5) {
    super();
    if (!(p >= 0 && p <= 1)) throw new ConfigError(`nn.Dropout: p is ${p}; give a probability from 0 to 1`);
    this.p = p;
  }

  forward(x: tf.Tensor): tf.Tensor {
    if (!this.training || this.p === 0) return x;
    return tf.mul(x, this.mask(x.shape));
  }

  /** Returns factors: 0 for dropped elements, else 1 / (1 − p). */
  protected mask(shape: readonly number[]): tf.Tensor {
    const { uniform } = this.random();
    // A dry run needs no values.
    if (currentEngine()?.hasValues === false) return tf.fill([...shape], 1);
    const values = new Float32Array(shape.reduce((product, extent) => product * extent, 1));
    const factor = this.p === 1 ? 0 : 1 / (1 - this.p);
    for (let i = 0; i < values.length; i++) values[i] = uniform() < this.p ? 0 : factor;
    return tf.tensor(values, [...shape], 'float32');
  }
}

/** Does the same as `Dropout` for whole channels of [N, C, …]. Source: Tompson et al. 2015; torch.nn.Dropout2d. */
export class Dropout2d extends Dropout {
  override forward(x: tf.Tensor): tf.Tensor {
    if (!this.training || this.p === 0) return x;
    return tf.mul(x, this.mask(x.shape.map((extent, axis) => (axis < 2 ? extent : 1))));
  }
}
