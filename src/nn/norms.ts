import {
  atLeast0,
  count,
  either,
  flag,
  listOf,
  type OptionKinds,
  requireKind,
  requireOptions,
} from '../config';
import type * as tf from '../core/tf';
import { constant } from './init';
import { layerNorm, rmsNorm } from './layers/functions';
import { Module } from './module';
import { Parameter } from './parameter';
import { requireExtents } from './require-extents';
import { type TorchLayer, torchLayer } from './torch-layer';

/** Options of a `LayerNorm`, with torch's defaults. */
export interface LayerNormOptions<HasBias extends boolean = boolean> {
  /** Default 1e-5. */
  readonly eps?: number;
  /** Whether rows are scaled and shifted after the normalization. Default true. */
  readonly elementwiseAffine?: boolean;
  /** Whether a bias is added to rows. Default true. */
  readonly bias?: HasBias;
}

const LAYER_NORM: OptionKinds<LayerNormOptions> = { eps: atLeast0, elementwiseAffine: flag, bias: flag };

/**
 * Normalizes rows, then scales and shifts them. Shapes: x […, ...normalizedShape] → the same; weight and bias normalizedShape,
 * initially 1 and 0. If `normalizedShape` is a number, the shape has one dim.
 * Source: torch.nn.LayerNorm. Throws: CONFIG for a size that is not a positive integer.
 */
export class LayerNorm<HasBias extends boolean = true> extends Module {
  /** null if `elementwiseAffine` is false. The type omits null, because this case is rare. */
  readonly weight: Parameter;
  /** null if the layer has no bias. */
  readonly bias: HasBias extends true ? Parameter : null;
  readonly #shape: readonly number[];
  readonly #eps: number;

  constructor(normalizedShape: number | readonly number[], options: LayerNormOptions<HasBias> = {}) {
    super();
    const {
      eps = 1e-5,
      elementwiseAffine = true,
      bias,
    } = requireOptions('nn.LayerNorm', options, LAYER_NORM);
    this.#shape = shapeOf('nn.LayerNorm', normalizedShape);
    this.#eps = eps;
    this.weight = scaleOf(this.#shape, elementwiseAffine);
    const added = bias === false || !elementwiseAffine ? null : Parameter.deferred(this.#shape, constant(0));
    this.bias = added as typeof this.bias; // `HasBias` says whether the bias is null
  }

  override get torchLayer(): TorchLayer {
    const isScaled = (this.weight as Parameter | null) !== null;
    return torchLayer('LayerNorm', [this.#shape.length === 1 ? (this.#shape[0] ?? 1) : this.#shape], {
      eps: [this.#eps, 1e-5],
      elementwise_affine: [isScaled, true],
      bias: [!isScaled || this.bias !== null, true],
    });
  }

  forward(x: tf.Tensor): tf.Tensor {
    return this.normalized(x, (this.weight as Parameter | null)?.tensor, this.bias?.tensor);
  }

  protected normalized(x: tf.Tensor, weight: tf.Tensor | undefined, bias: tf.Tensor | undefined): tf.Tensor {
    return layerNorm(x, this.#shape, weight, bias, this.#eps);
  }
}

/** Options of an `RMSNorm`, with torch's defaults. */
export interface RMSNormOptions {
  /** Default 2^-23, the machine epsilon of float32. */
  readonly eps?: number;
  /** Whether rows are scaled after the normalization. Default true. */
  readonly elementwiseAffine?: boolean;
}

const RMS_NORM: OptionKinds<RMSNormOptions> = { eps: atLeast0, elementwiseAffine: flag };

/**
 * Divides rows by their root mean square, then scales them. Shapes: x […, ...normalizedShape]; weight normalizedShape,
 * initially 1. If `normalizedShape` is a number, the shape has one dim.
 * Source: Zhang and Sennrich 2019; torch.nn.RMSNorm. Throws: CONFIG for a size that is not a positive integer.
 */
export class RMSNorm extends Module {
  /** null if `elementwiseAffine` is false. The type omits null, because this case is rare. */
  readonly weight: Parameter;
  readonly #shape: readonly number[];
  readonly #eps: number;

  constructor(normalizedShape: number | readonly number[], options: RMSNormOptions = {}) {
    super();
    const { eps = 2 ** -23, elementwiseAffine = true } = requireOptions('nn.RMSNorm', options, RMS_NORM);
    this.#shape = shapeOf('nn.RMSNorm', normalizedShape);
    this.weight = scaleOf(this.#shape, elementwiseAffine);
    this.#eps = eps;
  }

  override get torchLayer(): TorchLayer {
    return torchLayer('RMSNorm', [this.#shape.length === 1 ? (this.#shape[0] ?? 1) : this.#shape], {
      eps: [this.#eps, null],
      elementwise_affine: [(this.weight as Parameter | null) !== null, true],
    });
  }

  forward(x: tf.Tensor): tf.Tensor {
    return this.normalized(x, (this.weight as Parameter | null)?.tensor);
  }

  protected normalized(x: tf.Tensor, weight: tf.Tensor | undefined): tf.Tensor {
    return rmsNorm(x, this.#shape, weight, this.#eps);
  }
}

function shapeOf(layer: string, shape: number | readonly number[]): readonly number[] {
  if (typeof shape !== 'number') requireKind(layer, 'normalizedShape', shape, either(count, listOf(count)));
  const sizes = typeof shape === 'number' ? [shape] : [...shape];
  requireExtents(layer, Object.fromEntries(sizes.map((size, i) => [`normalizedShape[${i}]`, size])));
  return sizes;
}

/** Returns a parameter with the factors of rows, initially 1; null if rows are not scaled. */
function scaleOf(shape: readonly number[], isScaled: boolean): Parameter {
  return (isScaled ? Parameter.deferred(shape, constant(1)) : null) as Parameter;
}
