import { count, flag, type OptionKinds, requireOptions, wholeFrom } from '../../config';
import * as tf from '../../core/tf';
import { MAX_POOL, type MaxPoolOptions, maxPool2d, type Pair, pairOf } from '../../engine';
import { Module } from '../module';
import { type TorchLayer, torchLayer } from '../torch-layer';
import {
  type AvgPoolOptions,
  adaptiveWindows,
  averaged,
  poolingWindows,
  type WindowsAlong,
} from './averages';
import { batched } from './batched';

/**
 * Returns the largest value of each window. Shapes: x [N, C, H, W] → [N, C, H', W']. Source: torch.nn.MaxPool2d.
 * @example
 * const pool = new nn.MaxPool2d(3, { stride: 2, padding: 1 });
 */
export class MaxPool2d extends Module {
  readonly #kernelSize: Pair;
  readonly #options: MaxPoolOptions;

  constructor(kernelSize: Pair, options: MaxPoolOptions = {}) {
    super();
    requireOptions('nn.MaxPool2d', options, MAX_POOL);
    this.#kernelSize = kernelSize;
    this.#options = options;
  }

  override get torchLayer(): TorchLayer {
    return torchLayer('MaxPool2d', [this.#kernelSize], maxPoolArguments(this.#options, this.#kernelSize));
  }

  forward(x: tf.Tensor): tf.Tensor {
    return batched('nn.MaxPool2d', x, 4, (images) => maxPool2d(images, this.#kernelSize, this.#options));
  }
}

/** Options of `MaxPool1d`, with torch's defaults. */
export interface MaxPool1dOptions {
  /** Default: the size of the window. */
  readonly stride?: number;
  readonly padding?: number;
  readonly dilation?: number;
  readonly ceilMode?: boolean;
}

const AVG_POOL_1D: OptionKinds<AvgPoolOptions<number>> = {
  stride: count,
  padding: wholeFrom(0),
  ceilMode: flag,
  countIncludePad: flag,
};

const MAX_POOL_1D: OptionKinds<MaxPool1dOptions> = {
  stride: count,
  padding: wholeFrom(0),
  dilation: count,
  ceilMode: flag,
};

/** Returns the largest value of each window. Shapes: x [N, C, L] → [N, C, L']. Source: torch.nn.MaxPool1d. */
export class MaxPool1d extends Module {
  readonly #kernelSize: number;
  readonly #options: MaxPool1dOptions;

  constructor(kernelSize: number, options: MaxPool1dOptions = {}) {
    super();
    requireOptions('nn.MaxPool1d', options, MAX_POOL_1D);
    this.#kernelSize = kernelSize;
    this.#options = options;
  }

  override get torchLayer(): TorchLayer {
    return torchLayer('MaxPool1d', [this.#kernelSize], maxPoolArguments(this.#options, this.#kernelSize));
  }

  forward(x: tf.Tensor): tf.Tensor {
    const { stride = this.#kernelSize, padding = 0, dilation = 1, ceilMode = false } = this.#options;
    const options = {
      stride: [1, stride],
      padding: [0, padding],
      dilation: [1, dilation],
      ceilMode,
    } as const;
    return batched('nn.MaxPool1d', x, 3, (sequences) =>
      tf.squeeze(maxPool2d(tf.expandDims(sequences, 2), [1, this.#kernelSize], options), [2]),
    );
  }
}

/** Returns the mean of each window. Shapes: x [N, C, H, W] → [N, C, H', W']. Source: torch.nn.AvgPool2d. */
export class AvgPool2d extends Module {
  readonly #windows: WindowsAlong;
  readonly #kernelSize: Pair;
  readonly #options: AvgPoolOptions;

  constructor(kernelSize: Pair, options: AvgPoolOptions = {}) {
    super();
    this.#kernelSize = kernelSize;
    this.#options = options;
    this.#windows = poolingWindows('nn.AvgPool2d', pairOf(kernelSize), options);
  }

  override get torchLayer(): TorchLayer {
    return torchLayer('AvgPool2d', [this.#kernelSize], avgPoolArguments(this.#options, this.#kernelSize));
  }

  forward(x: tf.Tensor): tf.Tensor {
    return batched('nn.AvgPool2d', x, 4, (images) => averaged(images, this.#windows));
  }
}

/** Returns the mean of each window. Shapes: x [N, C, L] → [N, C, L']. Source: torch.nn.AvgPool1d. */
export class AvgPool1d extends Module {
  readonly #windows: WindowsAlong;
  readonly #kernelSize: number;
  readonly #options: AvgPoolOptions<number>;

  constructor(kernelSize: number, options: AvgPoolOptions<number> = {}) {
    super();
    this.#kernelSize = kernelSize;
    this.#options = options;
    const {
      stride = kernelSize,
      padding = 0,
      ...rest
    } = requireOptions('nn.AvgPool1d', options, AVG_POOL_1D);
    const pairs = { ...rest, stride: [1, stride], padding: [0, padding] } as const;
    this.#windows = poolingWindows('nn.AvgPool1d', [1, kernelSize], pairs);
  }

  override get torchLayer(): TorchLayer {
    return torchLayer('AvgPool1d', [this.#kernelSize], avgPoolArguments(this.#options, this.#kernelSize));
  }

  forward(x: tf.Tensor): tf.Tensor {
    return batched('nn.AvgPool1d', x, 3, (sequences) =>
      tf.squeeze(averaged(tf.expandDims(sequences, 2), this.#windows), [2]),
    );
  }
}

/**
 * Returns means over windows that divide the image into `outputSize` rows and columns (null: this size does not change).
 * Shapes: x [N, C, H, W] → [N, C, ...outputSize]. Source: torch.nn.AdaptiveAvgPool2d.
 * @example
 * const pool = new nn.AdaptiveAvgPool2d(1); // the mean of each channel, [N, C, 1, 1]
 */
export class AdaptiveAvgPool2d extends Module {
  readonly #windows: WindowsAlong;
  readonly #outputSize: number | readonly [number | null, number | null];

  constructor(outputSize: number | readonly [number | null, number | null]) {
    super();
    this.#outputSize = outputSize;
    this.#windows = adaptiveWindows(outputSize);
  }

  override get torchLayer(): TorchLayer {
    return torchLayer('AdaptiveAvgPool2d', [this.#outputSize]);
  }

  forward(x: tf.Tensor): tf.Tensor {
    return batched('nn.AdaptiveAvgPool2d', x, 4, (images) => averaged(images, this.#windows));
  }
}

/** Returns means over windows that divide the sequence into `outputSize` parts. Source: torch.nn.AdaptiveAvgPool1d. */
export class AdaptiveAvgPool1d extends Module {
  readonly #size: number;

  constructor(outputSize: number) {
    super();
    this.#size = outputSize;
  }

  override get torchLayer(): TorchLayer {
    return torchLayer('AdaptiveAvgPool1d', [this.#size]);
  }

  forward(x: tf.Tensor): tf.Tensor {
    return batched('nn.AdaptiveAvgPool1d', x, 3, (sequences) => {
      const windows = adaptiveWindows([null, this.#size]);
      return tf.squeeze(averaged(tf.expandDims(sequences, 2), windows), [2]);
    });
  }
}

/** Returns a layer's options by torch's names. */
function maxPoolArguments(
  { stride, padding, dilation, ceilMode }: MaxPoolOptions,
  kernelSize: Pair,
): Parameters<typeof torchLayer>[2] {
  return {
    stride: [stride, kernelSize],
    padding: [padding, 0],
    dilation: [dilation, 1],
    ceil_mode: [ceilMode, false],
  };
}

/** Returns a layer's options by torch's names. */
function avgPoolArguments<Size extends Pair>(
  { stride, padding, ceilMode, countIncludePad }: AvgPoolOptions<Size>,
  kernelSize: Pair,
): Parameters<typeof torchLayer>[2] {
  return {
    stride: [stride, kernelSize],
    padding: [padding, 0],
    ceil_mode: [ceilMode, false],
    count_include_pad: [countIncludePad, true],
  };
}
