import { layerNorm } from '../backend/ops';
import { ShardlabError } from '../core/errors';
import * as tf from '../core/tf';
import { constant } from './init';
import { Module } from './module';
import { Parameter } from './parameter';
import { requireExtents } from './require-extents';

/** Options of a `LayerNorm`, with torch's defaults. */
export interface LayerNormOptions<HasBias extends boolean = boolean> {
  /** Default 1e-5. */
  readonly eps?: number;
  /** Whether rows are scaled and shifted after the normalization. Default true. */
  readonly elementwiseAffine?: boolean;
  /** Whether a bias is added to rows. Default true. */
  readonly bias?: HasBias;
}

/**
 * Normalizes rows, then scales and shifts them. Shapes: x […, ...normalizedShape] → the same; weight and bias
 * normalizedShape, initially 1 and 0. A number is a shape of one dim.
 * Source: torch.nn.LayerNorm. Throws: CONFIG for a size that is not a positive integer.
 */
export class LayerNorm<HasBias extends boolean = true> extends Module {
  /** null without `elementwiseAffine`; its type has no null, because few layers are without. */
  readonly weight: Parameter;
  /** null without bias. */
  readonly bias: HasBias extends true ? Parameter : null;
  readonly #shape: readonly number[];
  readonly #eps: number;

  constructor(
    normalizedShape: number | readonly number[],
    { eps = 1e-5, elementwiseAffine = true, bias }: LayerNormOptions<HasBias> = {},
  ) {
    super();
    this.#shape = shapeOf('nn.LayerNorm', normalizedShape);
    this.#eps = eps;
    this.weight = scaleOf(this.#shape, elementwiseAffine);
    const added = bias === false || !elementwiseAffine ? null : Parameter.deferred(this.#shape, constant(0));
    this.bias = added as typeof this.bias; // the class's type parameter says which of both
  }

  forward(x: tf.Tensor): tf.Tensor {
    const weight = (this.weight as Parameter | null)?.tensor ?? tf.ones([...this.#shape]);
    const bias = this.bias?.tensor ?? tf.zeros(weight.shape);
    if (this.#shape.length === 1) return layerNorm(x, weight, bias, this.#eps);
    const flat = (tensor: tf.Tensor): tf.Tensor => tf.reshape(tensor, [-1]);
    const rows = rowsOf('nn.LayerNorm', x, this.#shape);
    return tf.reshape(layerNorm(rows, flat(weight), flat(bias), this.#eps), x.shape);
  }
}

/** Options of an `RMSNorm`, with torch's defaults. */
export interface RMSNormOptions {
  /** Default 2^-23, the machine epsilon of float32. */
  readonly eps?: number;
  /** Whether rows are scaled after the normalization. Default true. */
  readonly elementwiseAffine?: boolean;
}

/**
 * Divides rows by their root mean square, then scales them. Shapes: x […, ...normalizedShape]; weight normalizedShape,
 * initially 1. A number is a shape of one dim.
 * Source: Zhang and Sennrich 2019; torch.nn.RMSNorm. Throws: CONFIG for a size that is not a positive integer.
 */
export class RMSNorm extends Module {
  /** null without `elementwiseAffine`; its type has no null, because few layers are without. */
  readonly weight: Parameter;
  readonly #shape: readonly number[];
  readonly #eps: number;

  constructor(
    normalizedShape: number | readonly number[],
    { eps = 2 ** -23, elementwiseAffine = true }: RMSNormOptions = {},
  ) {
    super();
    this.#shape = shapeOf('nn.RMSNorm', normalizedShape);
    this.weight = scaleOf(this.#shape, elementwiseAffine);
    this.#eps = eps;
  }

  forward(x: tf.Tensor): tf.Tensor {
    const rows = this.#shape.length === 1 ? x : rowsOf('nn.RMSNorm', x, this.#shape);
    const meanSquare = tf.mean(tf.square(rows), -1, true);
    const normalized = tf.mul(rows, tf.rsqrt(tf.add(meanSquare, this.#eps)));
    const weight = (this.weight as Parameter | null)?.tensor;
    if (weight === undefined) return tf.reshape(normalized, x.shape);
    if (this.#shape.length === 1) return tf.mul(normalized, weight);
    return tf.reshape(tf.mul(normalized, tf.reshape(weight, [-1])), x.shape);
  }
}

function shapeOf(layer: string, shape: number | readonly number[]): readonly number[] {
  const sizes = typeof shape === 'number' ? [shape] : [...shape];
  requireExtents(layer, Object.fromEntries(sizes.map((size, i) => [`normalizedShape[${i}]`, size])));
  return sizes;
}

/** Returns the parameter of factors, initially 1, or null. */
function scaleOf(shape: readonly number[], isScaled: boolean): Parameter {
  return (isScaled ? Parameter.deferred(shape, constant(1)) : null) as Parameter;
}

/** Returns x as rows of the normalized size. */
function rowsOf(layer: string, x: tf.Tensor, shape: readonly number[]): tf.Tensor {
  if (x.shape.slice(-shape.length).join() !== shape.join()) {
    throw new ShardlabError('SHAPE', `${layer}: x is [${x.shape}], but its last dims must be [${shape}].`);
  }
  return tf.reshape(x, [-1, shape.reduce((product, extent) => product * extent, 1)]);
}
