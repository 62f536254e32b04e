import { flag, requireOptions } from '../../config';
import { ConfigError } from '../../core';
import type * as tf from '../../core/tf';
import {
  CONVOLUTION,
  conv2d,
  convTranspose2d,
  type Pair,
  pairOf,
  TRANSPOSED_CONVOLUTION,
  type ConvOptions as Window,
} from '../../engine';
import { uniform } from '../init';
import { Module } from '../module';
import { Parameter } from '../parameter';
import { requireExtents } from '../require-extents';
import { type TorchLayer, torchLayer } from '../torch-layer';
import { batched } from './batched';
import { CONV_1D, type Conv1dWindow } from './function-options';
import { conv1d } from './functions';

/** Options of `Conv2d`, with torch's defaults. */
export interface Conv2dOptions extends Window {
  /** Whether a bias is added. Default true. */
  readonly bias?: boolean;
}

/**
 * Convolves images. Shapes: x [N, inChannels, H, W] or [inChannels, H, W] → [N, outChannels, H', W']; weight
 * [outChannels, inChannels / groups, height, width], bias [outChannels].
 * Source: torch.nn.Conv2d, including its initial values. Throws: CONFIG for sizes that do not fit together.
 * @example
 * const conv = new nn.Conv2d(3, 16, 3, { stride: 2, padding: 1 });
 */
export class Conv2d extends Module {
  readonly weight: Parameter;
  /** null if the layer has no bias. */
  readonly bias: Parameter | null;
  readonly #options: Omit<Conv2dOptions, 'bias'>;

  constructor(inChannels: number, outChannels: number, kernelSize: Pair, options: Conv2dOptions = {}) {
    super();
    const kernel = pairOf(kernelSize);
    requireOptions('nn.Conv2d', options, { ...CONVOLUTION, bias: flag });
    requireChannels('nn.Conv2d', inChannels, outChannels, kernel, options.groups);
    const shape = [outChannels, inChannels / (options.groups ?? 1), ...kernel];
    [this.weight, this.bias] = parametersOf(shape, outChannels, options.bias);
    this.#options = windowOf(options);
  }

  override get torchLayer(): TorchLayer {
    const [outputs = 1, inputs = 1, ...kernel] = this.weight.shape;
    const { groups = 1 } = this.#options;
    return torchLayer('Conv2d', [inputs * groups, outputs, kernel], {
      ...windowArguments(this.#options),
      bias: [this.bias !== null, true],
    });
  }

  forward(x: tf.Tensor): tf.Tensor {
    const [weight, bias] = [this.weight.tensor, this.bias?.tensor ?? null];
    return batched('nn.Conv2d', x, 4, (images) => conv2d(images, weight, bias, this.#options));
  }
}

/** Options of `Conv1d`, with torch's defaults. */
export interface Conv1dOptions extends Conv1dWindow {
  /** Whether a bias is added. Default true. */
  readonly bias?: boolean;
}

/**
 * Convolves sequences. Shapes: x [N, inChannels, L] or [inChannels, L] → [N, outChannels, L']; weight [outChannels,
 * inChannels / groups, size]. Source: torch.nn.Conv1d, including its initial values. Throws: CONFIG for sizes that do not
 * fit together.
 */
export class Conv1d extends Module {
  readonly weight: Parameter;
  /** null if the layer has no bias. */
  readonly bias: Parameter | null;
  readonly #options: Omit<Conv1dOptions, 'bias'>;

  constructor(inChannels: number, outChannels: number, kernelSize: number, options: Conv1dOptions = {}) {
    super();
    const { groups = 1, bias } = requireOptions('nn.Conv1d', options, { ...CONV_1D, bias: flag });
    requireChannels('nn.Conv1d', inChannels, outChannels, [kernelSize], groups);
    [this.weight, this.bias] = parametersOf(
      [outChannels, inChannels / groups, kernelSize],
      outChannels,
      bias,
    );
    this.#options = windowOf(options);
  }

  override get torchLayer(): TorchLayer {
    const [outputs = 1, inputs = 1, kernel = 1] = this.weight.shape;
    const { groups = 1 } = this.#options;
    return torchLayer('Conv1d', [inputs * groups, outputs, kernel], {
      ...windowArguments(this.#options),
      bias: [this.bias !== null, true],
    });
  }

  forward(x: tf.Tensor): tf.Tensor {
    const [weight, bias] = [this.weight.tensor, this.bias?.tensor ?? null];
    return batched('nn.Conv1d', x, 3, (sequences) => conv1d(sequences, weight, bias, this.#options));
  }
}

/** Options of `ConvTranspose2d`, with torch's defaults. */
export interface ConvTranspose2dOptions {
  readonly stride?: Pair;
  readonly padding?: Pair;
  /** How many rows and columns are added to the result. Default 0. */
  readonly outputPadding?: Pair;
  readonly groups?: number;
  /** Whether a bias is added. Default true. */
  readonly bias?: boolean;
  readonly dilation?: Pair;
}

/**
 * Computes the transposed convolution, which enlarges images. Shapes: x [N, inChannels, H, W] → [N, outChannels, H', W'];
 * weight [inChannels, outChannels / groups, height, width].
 * Source: torch.nn.ConvTranspose2d, including its initial values. Throws: CONFIG for sizes that do not fit together.
 */
export class ConvTranspose2d extends Module {
  readonly weight: Parameter;
  /** null if the layer has no bias. */
  readonly bias: Parameter | null;
  readonly #options: Omit<ConvTranspose2dOptions, 'bias'>;

  constructor(
    inChannels: number,
    outChannels: number,
    kernelSize: Pair,
    options: ConvTranspose2dOptions = {},
  ) {
    super();
    const kernel = pairOf(kernelSize);
    requireOptions('nn.ConvTranspose2d', options, { ...TRANSPOSED_CONVOLUTION, bias: flag });
    requireChannels('nn.ConvTranspose2d', inChannels, outChannels, kernel, options.groups);
    const shape = [inChannels, outChannels / (options.groups ?? 1), ...kernel];
    [this.weight, this.bias] = parametersOf(shape, outChannels, options.bias);
    this.#options = windowOf(options);
  }

  override get torchLayer(): TorchLayer {
    const [inputs = 1, outputs = 1, ...kernel] = this.weight.shape;
    const { groups = 1, outputPadding } = this.#options;
    return torchLayer('ConvTranspose2d', [inputs, outputs * groups, kernel], {
      ...windowArguments(this.#options),
      output_padding: [outputPadding, 0],
      bias: [this.bias !== null, true],
    });
  }

  forward(x: tf.Tensor): tf.Tensor {
    const [weight, bias] = [this.weight.tensor, this.bias?.tensor ?? null];
    return batched('nn.ConvTranspose2d', x, 4, (images) =>
      convTranspose2d(images, weight, bias, this.#options),
    );
  }
}

/** Makes weight and bias, both uniform in ±1/sqrt(fan in). Source: torch's _ConvNd.reset_parameters. */
function parametersOf(
  shape: readonly number[],
  outChannels: number,
  hasBias = true,
): [weight: Parameter, bias: Parameter | null] {
  const fanIn = shape.slice(1).reduce((product, extent) => product * extent, 1);
  const within = uniform(1 / Math.sqrt(fanIn));
  return [Parameter.deferred(shape, within), hasBias ? Parameter.deferred([outChannels], within) : null];
}

function requireChannels(
  layer: string,
  inChannels: number,
  outChannels: number,
  kernel: readonly number[],
  groups = 1,
): void {
  const sizes = Object.fromEntries(kernel.map((size, i) => [`kernelSize[${i}]`, size]));
  requireExtents(layer, { inChannels, outChannels, groups, ...sizes });
  if (inChannels % groups === 0 && outChannels % groups === 0) return;
  throw new ConfigError(
    `${layer}: inChannels ${inChannels} and outChannels ${outChannels} must both be divisible by groups ${groups}`,
  );
}

/** Returns a layer's options by torch's names. */
function windowArguments({ stride, padding, dilation, groups }: Window): Parameters<typeof torchLayer>[2] {
  return { stride: [stride, 1], padding: [padding, 0], dilation: [dilation, 1], groups: [groups, 1] };
}

/** Returns the options that the function of a layer takes. */
function windowOf<T extends { readonly bias?: boolean }>({ bias: _bias, ...window }: T): Omit<T, 'bias'> {
  return window;
}
