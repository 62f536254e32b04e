import { ConfigError, shown } from '../../core';
import type * as tf from '../../core/tf';
import { dropout } from '../../engine';
import { Module } from '../module';
import { type TorchLayer, torchLayer } from '../torch-layer';

/**
 * In training, sets each element to 0 with probability p, and divides the other elements by 1 − p; in `eval` returns x. Each
 * rank and each step draws different elements; a forward that runs again in backward draws the same elements. Backward also draws
 * the same elements again, so no mask is stored. Source: Srivastava et al. 2014; torch.nn.Dropout. Throws: CONFIG if p is not
 * from 0 to 1.
 * @example
 * const dropout = new nn.Dropout(0.1);
 */
export class Dropout extends Module {
  readonly p: number;

  constructor(p = 0.5) {
    super();
    if (!(typeof p === 'number' && p >= 0 && p <= 1))
      throw new ConfigError(`nn.Dropout: p is ${shown(p)}; give a probability from 0 to 1`);
    this.p = p;
  }

  override get torchLayer(): TorchLayer {
    return torchLayer('Dropout', [this.p]);
  }

  forward(x: tf.Tensor): tf.Tensor {
    return this.dropped(x, 1);
  }

  /** Drops each `period` consecutive elements together. */
  protected dropped(x: tf.Tensor, period: number): tf.Tensor {
    if (!this.training || this.p === 0) return x;
    const { integer } = this.random();
    // Each seed has 31 random bits.
    return dropout(x, this.p, { seeds: [integer(2 ** 31), integer(2 ** 31)], period });
  }
}

/** Does the same as `Dropout` for whole channels of [N, C, …]. Source: Tompson et al. 2015; torch.nn.Dropout2d. */
export class Dropout2d extends Dropout {
  override get torchLayer(): TorchLayer {
    return torchLayer('Dropout2d', [this.p]);
  }

  override forward(x: tf.Tensor): tf.Tensor {
    return this.dropped(
      x,
      x.shape.slice(2).reduce((product, extent) => product * extent, 1),
    );
  }
}
