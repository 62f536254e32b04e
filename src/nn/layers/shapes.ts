import { pairFrom, requireOptions } from '../../config';
import { ConfigError, ShardlabError } from '../../core';
import * as tf from '../../core/tf';
import type { Pair } from '../../engine';
import { Module } from '../module';
import { type TorchLayer, torchLayer } from '../torch-layer';
import { batched } from './batched';

/** Returns its input. Source: torch.nn.Identity. */
export class Identity extends Module {
  override get torchLayer(): TorchLayer {
    return torchLayer('Identity');
  }

  forward(x: tf.Tensor): tf.Tensor {
    return x;
  }
}

/** Joins the dims from `startDim` to `endDim` into one dim. Source: torch.nn.Flatten. Throws: SHAPE for dims that x does not have. */
export class Flatten extends Module {
  readonly #start: number;
  readonly #end: number;

  constructor(startDim = 1, endDim = -1) {
    super();
    this.#start = startDim;
    this.#end = endDim;
  }

  override get torchLayer(): TorchLayer {
    return torchLayer('Flatten', [], { start_dim: [this.#start, 1], end_dim: [this.#end, -1] });
  }

  forward(x: tf.Tensor): tf.Tensor {
    const start = dimOf('nn.Flatten: startDim', x, this.#start);
    const end = dimOf('nn.Flatten: endDim', x, this.#end);
    if (start > end)
      throw new ShardlabError(
        'SHAPE',
        `nn.Flatten: startDim ${this.#start} is after endDim ${this.#end} in x [${x.shape}].`,
      );
    const flat = x.shape.slice(start, end + 1).reduce((product, extent) => product * extent, 1);
    return tf.reshape(x, [...x.shape.slice(0, start), flat, ...x.shape.slice(end + 1)]);
  }
}

/** Divides the dim `dim` into several dims. Source: torch.nn.Unflatten. Throws: SHAPE for a dim that x does not have. */
export class Unflatten extends Module {
  readonly #dim: number;
  readonly #size: readonly number[];

  constructor(dim: number, unflattenedSize: readonly number[]) {
    super();
    this.#dim = dim;
    this.#size = unflattenedSize;
  }

  override get torchLayer(): TorchLayer {
    return torchLayer('Unflatten', [this.#dim, this.#size]);
  }

  forward(x: tf.Tensor): tf.Tensor {
    const at = dimOf('nn.Unflatten: dim', x, this.#dim);
    return tf.reshape(x, [...x.shape.slice(0, at), ...this.#size, ...x.shape.slice(at + 1)]);
  }
}

/**
 * Enlarges images [N, C, H, W] by repeating pixels. Source: torch.nn.Upsample with mode 'nearest'. Throws: CONFIG for a factor
 * that is not a positive integer.
 */
export class Upsample extends Module {
  readonly #factors: readonly [number, number];

  constructor(options: { readonly scaleFactor: Pair }) {
    super();
    const { scaleFactor } = requireOptions('nn.Upsample', options, { scaleFactor: pairFrom(1) });
    if (scaleFactor === undefined) throw new ConfigError('nn.Upsample needs a factor: { scaleFactor: 2 }');
    this.#factors = typeof scaleFactor === 'number' ? [scaleFactor, scaleFactor] : scaleFactor;
  }

  forward(x: tf.Tensor): tf.Tensor {
    return batched('nn.Upsample', x, 4, (images) => {
      const [count = 0, channels = 0, height = 0, width = 0] = images.shape;
      const [down, across] = this.#factors;
      const pixels = tf.reshape(images, [count * channels, height, 1, width, 1]);
      const repeated = tf.mul(pixels, tf.ones([1, 1, down, 1, across]));
      return tf.reshape(repeated, [count, channels, height * down, width * across]);
    });
  }
}

/** Returns the index of a dim that may count from the end. */
function dimOf(argument: string, x: tf.Tensor, dim: number): number {
  if (Number.isInteger(dim) && dim >= -x.rank && dim < x.rank) return dim < 0 ? x.rank + dim : dim;
  throw new ShardlabError(
    'SHAPE',
    `${argument} is ${dim}, but x [${x.shape}] has ${x.rank} dims; give a dim from ${-x.rank} to ${x.rank - 1}.`,
  );
}
