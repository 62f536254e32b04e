import { atLeast0, flag, requireOptions } from '../../config';
import { ConfigError } from '../../core';
import * as tf from '../../core/tf';
import { constant } from '../init';
import { Module } from '../module';
import { Parameter } from '../parameter';
import { requireExtents } from '../require-extents';
import { type TorchLayer, torchLayer } from '../torch-layer';
import { normalizeChannels, scaleChannels } from './channel-norm';

/** Options of a `GroupNorm`, with torch's defaults. */
export interface GroupNormOptions {
  /** Default 1e-5. */
  readonly eps?: number;
  /** Whether channels are scaled and shifted after the normalization. Default true. */
  readonly affine?: boolean;
}

/**
 * Normalizes the channels of each group together, for each image alone; then scales and shifts each channel. Shapes: x
 * [N, numChannels, …] → the same; weight and bias [numChannels], initially 1 and 0.
 * Source: Wu and He 2018; torch.nn.GroupNorm. Throws: CONFIG if numChannels is not divisible by numGroups.
 * @example
 * const norm = new nn.GroupNorm(8, 64);
 */
export class GroupNorm extends Module {
  /** null if `affine` is false. */
  readonly weight: Parameter | null;
  /** null if `affine` is false. */
  readonly bias: Parameter | null;
  readonly #numGroups: number;
  readonly #numChannels: number;
  readonly #eps: number;

  constructor(numGroups: number, numChannels: number, options: GroupNormOptions = {}) {
    super();
    const { eps = 1e-5, affine = true } = requireOptions('nn.GroupNorm', options, {
      eps: atLeast0,
      affine: flag,
    });
    requireExtents('nn.GroupNorm', { numGroups, numChannels });
    if (numChannels % numGroups !== 0)
      throw new ConfigError(
        `nn.GroupNorm: numChannels ${numChannels} must be divisible by numGroups ${numGroups}`,
      );
    this.#numGroups = numGroups;
    this.#numChannels = numChannels;
    this.#eps = eps;
    this.weight = affine ? Parameter.deferred([numChannels], constant(1)) : null;
    this.bias = affine ? Parameter.deferred([numChannels], constant(0)) : null;
  }

  override get torchLayer(): TorchLayer {
    return torchLayer('GroupNorm', [this.#numGroups, this.#numChannels], {
      eps: [this.#eps, 1e-5],
      affine: [this.weight !== null, true],
    });
  }

  forward(x: tf.Tensor): tf.Tensor {
    const normalized = x.size === 0 ? x : this.#normalized(x); // nothing to normalize has no moments
    if (this.weight === null || this.bias === null) return normalized;
    const { shape } = this.weight;
    return scaleChannels(
      normalized,
      this.weight.tensor,
      this.bias.tensor,
      tf.zeros([...shape]),
      tf.ones([...shape]),
    );
  }

  #normalized(x: tf.Tensor): tf.Tensor {
    const parts = (x.shape[0] ?? 0) * this.#numGroups;
    const grouped = tf.reshape(x, [1, parts, x.size / parts]);
    const { y, moments } = normalizeChannels(grouped, tf.ones([parts]), tf.zeros([parts]), {
      eps: this.#eps,
    });
    tf.dispose({ ...moments });
    return tf.reshape(y, x.shape);
  }
}
