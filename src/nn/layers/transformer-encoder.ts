import {
  atLeast0,
  callback,
  count,
  either,
  flag,
  fraction,
  MOST_LAYERS,
  type OptionKinds,
  oneOf,
  orNull,
  requireKind,
  requireOptions,
  tensor,
} from '../../config';
import { ConfigError } from '../../core';
import * as tf from '../../core/tf';
import { ModuleList } from '../containers';
import { Linear } from '../linear';
import { Module } from '../module';
import { LayerNorm } from '../norms';
import { requireAtMost, requireExtents } from '../require-extents';
import { aModule } from '../require-parameters';
import { gelu, relu } from './activation-functions';
import { Dropout } from './dropout';
import { MultiheadAttention } from './multihead-attention';

/** Options of a `TransformerEncoderLayer`, with torch's defaults. */
export interface TransformerEncoderLayerOptions {
  /** The width of the feed-forward network. Default 2048. */
  readonly dimFeedforward?: number;
  /** Default 0.1. */
  readonly dropout?: number;
  /** Default 'relu'; 'gelu' is the exact GELU. */
  readonly activation?: 'relu' | 'gelu' | ((x: tf.Tensor) => tf.Tensor);
  /** Default 1e-5. */
  readonly layerNormEps?: number;
  /** Whether inputs and outputs are [N, L, …] instead of [L, N, …]. Default false. */
  readonly batchFirst?: boolean;
  /** Whether norms are before the attention and the feed-forward network, instead of after them. Default false. */
  readonly normFirst?: boolean;
  /** Whether layers add biases. Default true. */
  readonly bias?: boolean;
}

const OPTIONS: OptionKinds<TransformerEncoderLayerOptions> = {
  dimFeedforward: count,
  dropout: fraction,
  activation: either(oneOf('relu', 'gelu'), callback),
  layerNormEps: atLeast0,
  batchFirst: flag,
  normFirst: flag,
  bias: flag,
};

/** Options of a call of an encoder. */
export interface EncoderCallOptions {
  /** [L, L] or [N · numHeads, L, L]: true for excluded pairs of positions, or numbers to add to scores. */
  readonly mask?: tf.Tensor;
  /** [N, L]: true for positions to which no position attends. */
  readonly srcKeyPaddingMask?: tf.Tensor;
  /** Whether each position attends only to itself and earlier positions. Default false. */
  readonly isCausal?: boolean;
}

const CALL_OPTIONS: OptionKinds<EncoderCallOptions> = {
  mask: tensor,
  srcKeyPaddingMask: tensor,
  isCausal: flag,
};

/**
 * Self-attention and a feed-forward network, each with a residual connection and a norm. Shapes: src [L, N, dModel] → the same.
 * Source: Vaswani et al. 2017; torch.nn.TransformerEncoderLayer, including names and initial values.
 * @example
 * const layer = new nn.TransformerEncoderLayer(64, 4, { dimFeedforward: 256, batchFirst: true });
 */
export class TransformerEncoderLayer extends Module {
  readonly self_attn: MultiheadAttention;
  readonly linear1: Linear<boolean>;
  readonly dropout: Dropout;
  readonly linear2: Linear<boolean>;
  readonly norm1: LayerNorm<boolean>;
  readonly norm2: LayerNorm<boolean>;
  readonly dropout1: Dropout;
  readonly dropout2: Dropout;
  readonly #activation: (x: tf.Tensor) => tf.Tensor;
  readonly #normFirst: boolean;

  constructor(dModel: number, nhead: number, options: TransformerEncoderLayerOptions = {}) {
    super();
    requireOptions('nn.TransformerEncoderLayer', options, OPTIONS);
    const { dimFeedforward = 2048, dropout = 0.1, activation = 'relu', layerNormEps: eps = 1e-5 } = options;
    const { batchFirst = false, normFirst = false, bias = true } = options;
    this.self_attn = new MultiheadAttention(dModel, nhead, { dropout, bias, batchFirst });
    this.linear1 = new Linear<boolean>(dModel, dimFeedforward, { bias });
    this.dropout = new Dropout(dropout);
    this.linear2 = new Linear<boolean>(dimFeedforward, dModel, { bias });
    this.norm1 = new LayerNorm<boolean>(dModel, { eps, bias });
    this.norm2 = new LayerNorm<boolean>(dModel, { eps, bias });
    this.dropout1 = new Dropout(dropout);
    this.dropout2 = new Dropout(dropout);
    this.#normFirst = normFirst;
    this.#activation = typeof activation === 'function' ? activation : { relu, gelu }[activation];
  }

  forward(src: tf.Tensor, options: EncoderCallOptions = {}): tf.Tensor {
    requireOptions('a call of nn.TransformerEncoderLayer', options, CALL_OPTIONS);
    if (this.#normFirst) {
      const x = tf.add(src, this.#attend(this.norm1.apply(src), options));
      return tf.add(x, this.#feed(this.norm2.apply(x)));
    }
    const x = this.norm1.apply(tf.add(src, this.#attend(src, options)));
    return this.norm2.apply(tf.add(x, this.#feed(x)));
  }

  #attend(x: tf.Tensor, { mask, srcKeyPaddingMask, isCausal = false }: EncoderCallOptions): tf.Tensor {
    const [y] = this.self_attn.apply(x, x, x, {
      ...{ isCausal, needWeights: false },
      ...(mask === undefined ? {} : { attnMask: mask }),
      ...(srcKeyPaddingMask === undefined ? {} : { keyPaddingMask: srcKeyPaddingMask }),
    });
    return this.dropout1.apply(y);
  }

  #feed(x: tf.Tensor): tf.Tensor {
    const hidden = this.dropout.apply(this.#activation(this.linear1.apply(x)));
    return this.dropout2.apply(this.linear2.apply(hidden));
  }
}

/**
 * Encoder layers one after another; with the option `norm`, a norm follows the last layer. The argument is a function that
 * makes a layer, so each layer has its own initial values (torch copies one layer). Source: torch.nn.TransformerEncoder,
 * including names.
 * Throws: CONFIG for a layer in place of the function.
 * @example
 * const encoder = new nn.TransformerEncoder(() => new nn.TransformerEncoderLayer(64, 4), 6);
 */
export class TransformerEncoder extends Module {
  readonly layers: ModuleList<TransformerEncoderLayer>;
  readonly norm: Module | null;

  constructor(
    makeLayer: () => TransformerEncoderLayer,
    numLayers: number,
    options: { readonly norm?: Module | null } = {},
  ) {
    super();
    const { norm = null } = requireOptions('nn.TransformerEncoder', options, { norm: orNull(aModule) });
    if (makeLayer instanceof Module)
      throw new ConfigError(
        'nn.TransformerEncoder takes a function that makes a layer: () => new nn.TransformerEncoderLayer(…)',
      );
    requireKind('nn.TransformerEncoder', 'the first argument', makeLayer, callback);
    requireExtents('nn.TransformerEncoder', { numLayers });
    requireAtMost('nn.TransformerEncoder', 'numLayers', numLayers, MOST_LAYERS);
    this.layers = new ModuleList(Array.from({ length: numLayers }, () => makeLayer()));
    this.norm = norm;
  }

  forward(src: tf.Tensor, options: EncoderCallOptions = {}): tf.Tensor {
    let x = src;
    for (const layer of this.layers) x = layer.apply(x, options);
    // A norm returns one tensor.
    return this.norm === null ? x : (this.norm.apply(x) as tf.Tensor);
  }
}
