import { count, flag, fraction, type OptionKinds, requireOptions, tensor } from '../../config';
import { ConfigError, ShardlabError } from '../../core';
import * as tf from '../../core/tf';
import { linear } from '../../engine';
import { attention } from '../attention';
import { constant, type FirstValues, uniform, xavierUniform } from '../init';
import { Linear } from '../linear';
import { Module } from '../module';
import { Parameter } from '../parameter';
import { requireExtents } from '../require-extents';
import { Dropout } from './dropout';
import { additiveMask, causalMask, maskedSoftmax } from './masks';

/** Options of `MultiheadAttention`, with torch's defaults. */
export interface MultiheadAttentionOptions {
  /** The probability with which attention weights are dropped in training. Default 0. */
  readonly dropout?: number;
  /** Whether projections add a bias. Default true. */
  readonly bias?: boolean;
  /** The size of keys. Default: embedDim. */
  readonly kdim?: number;
  /** The size of values. Default: embedDim. */
  readonly vdim?: number;
  /** Whether inputs and outputs are [N, L, …] instead of [L, N, …]. Default false. */
  readonly batchFirst?: boolean;
}

const OPTIONS: OptionKinds<MultiheadAttentionOptions> = {
  dropout: fraction,
  bias: flag,
  kdim: count,
  vdim: count,
  batchFirst: flag,
};

/** Options of a call of `MultiheadAttention`, with torch's defaults. */
export interface AttentionCallOptions {
  /** [N, S]: true (or a number to add to scores) for keys that no query attends to. */
  readonly keyPaddingMask?: tf.Tensor;
  /** Whether attention weights are returned. Default true. With false, less memory is needed. */
  readonly needWeights?: boolean;
  /** [L, S] or [N · numHeads, L, S]: true for excluded pairs of query and key, or numbers to add to scores. */
  readonly attnMask?: tf.Tensor;
  /** Whether the returned weights are means over heads. Default true. */
  readonly averageAttnWeights?: boolean;
  /** Whether query i attends only to keys up to i. Unlike in torch, this option needs no attnMask. Default false. */
  readonly isCausal?: boolean;
}

const CALL_OPTIONS: OptionKinds<AttentionCallOptions> = {
  keyPaddingMask: tensor,
  needWeights: flag,
  attnMask: tensor,
  averageAttnWeights: flag,
  isCausal: flag,
};

/** Queries, keys and values by head. */
type Heads = [q: tf.Tensor, k: tf.Tensor, v: tf.Tensor];

/**
 * Multi-head attention. Returns [output, weights]; weights are null if needWeights is false. Shapes: query [L, N, embedDim], key
 * [S, N, kdim], value [S, N, vdim] → output [L, N, embedDim], weights [N, L, S]; with batchFirst, N is the first dim.
 * Source: Vaswani et al. 2017; torch.nn.MultiheadAttention, including names (in_proj_weight, out_proj.weight, …) and initial
 * values. Throws: CONFIG if embedDim is not divisible by numHeads.
 * @example
 * const attention = new nn.MultiheadAttention(64, 4, { batchFirst: true });
 * const [output] = attention.apply(x, x, x, { needWeights: false, isCausal: true });
 */
export class MultiheadAttention extends Module {
  /** The rows of all three projections, one below the other; null if keys or values have their own size. */
  readonly in_proj_weight: Parameter | null = null;
  readonly q_proj_weight: Parameter | null = null;
  readonly k_proj_weight: Parameter | null = null;
  readonly v_proj_weight: Parameter | null = null;
  /** null if projections have no bias. */
  readonly in_proj_bias: Parameter | null;
  readonly out_proj: Linear<boolean>;
  readonly #dim: number;
  readonly #heads: number;
  readonly #batchFirst: boolean;
  readonly #dropout: Dropout | null;

  constructor(embedDim: number, numHeads: number, options: MultiheadAttentionOptions = {}) {
    super();
    const {
      dropout = 0,
      bias = true,
      kdim = embedDim,
      vdim = embedDim,
      batchFirst = false,
    } = requireOptions('nn.MultiheadAttention', options, OPTIONS);
    requireExtents('nn.MultiheadAttention', { embedDim, numHeads, kdim, vdim });
    if (embedDim % numHeads !== 0)
      throw new ConfigError(
        `nn.MultiheadAttention: embedDim ${embedDim} must be divisible by numHeads ${numHeads}`,
      );
    this.#dim = embedDim;
    this.#heads = numHeads;
    this.#batchFirst = batchFirst;
    const made = (outputs: number, inputs: number): Parameter =>
      Parameter.deferred([outputs, inputs], xavierUniform());
    if (kdim === embedDim && vdim === embedDim) this.in_proj_weight = made(3 * embedDim, embedDim);
    else {
      this.q_proj_weight = made(embedDim, embedDim);
      this.k_proj_weight = made(embedDim, kdim);
      this.v_proj_weight = made(embedDim, vdim);
    }
    this.in_proj_bias = bias ? Parameter.deferred([3 * embedDim], constant(0)) : null;
    const init: { weight: FirstValues; bias: FirstValues } = {
      weight: uniform(1 / Math.sqrt(embedDim)),
      bias: constant(0),
    };
    this.out_proj = new Linear<boolean>(embedDim, embedDim, { bias, init });
    this.#dropout = dropout > 0 ? this.addChild('dropout', new Dropout(dropout)) : null;
  }

  forward(
    query: tf.Tensor,
    key: tf.Tensor,
    value: tf.Tensor,
    options: AttentionCallOptions = {},
  ): [output: tf.Tensor, weights: tf.Tensor | null] {
    requireOptions('a call of nn.MultiheadAttention', options, CALL_OPTIONS);
    if (query.rank === 2) return this.#unbatched(query, key, value, options);
    this.#requireFit(query, key, value);
    const batched = (x: tf.Tensor): tf.Tensor => (this.#batchFirst ? x : tf.transpose(x, [1, 0, 2]));
    const heads = this.#projected(batched(query), batched(key), batched(value));
    const { mixed, weights } = this.#isPlain(heads, options)
      ? { mixed: attention(...heads, { causal: options.isCausal === true, kind: 'flash' }), weights: null }
      : this.#weighted(heads, options);
    const [batch = 0, queries = 0] = mixed.shape;
    const output = this.out_proj.apply(tf.reshape(mixed, [batch, queries, this.#dim]));
    return [this.#batchFirst ? output : tf.transpose(output, [1, 0, 2]), weights];
  }

  /** Whether attention needs no matrix of weights, so that it can be computed in blocks. See [Note: flash attention]. */
  #isPlain([q, k]: Heads, { needWeights = true, ...options }: AttentionCallOptions): boolean {
    const isSquare = q.shape[1] === k.shape[1];
    const isDropping = this.training && this.#dropout !== null;
    const { keyPaddingMask, attnMask, isCausal = false } = options;
    const hasElements = q.size > 0 && k.size > 0;
    return (
      hasElements && !needWeights && !isDropping && !keyPaddingMask && !attnMask && (isSquare || !isCausal)
    );
  }

  /** Computes attention with all weights; returns the heads' results [N, L, heads, embedDim / heads], and the weights. */
  #weighted(
    heads: Heads,
    options: AttentionCallOptions,
  ): { readonly mixed: tf.Tensor; readonly weights: tf.Tensor | null } {
    const [q, k, v] = heads.map((x) => tf.transpose(x, [0, 2, 1, 3])) as Heads;
    const scores = tf.mul(tf.matMul(q, k, false, true), 1 / Math.sqrt(this.#dim / this.#heads));
    const all = maskedSoftmax(scores, this.#mask(scores, options));
    const dropped = this.#dropout?.apply(all) ?? all;
    const mixed = tf.transpose(tf.matMul(dropped, v), [0, 2, 1, 3]);
    const { needWeights = true, averageAttnWeights = true } = options;
    if (!needWeights) return { mixed, weights: null };
    return { mixed, weights: averageAttnWeights ? tf.mean(dropped, 1) : dropped };
  }

  #unbatched(
    query: tf.Tensor,
    key: tf.Tensor,
    value: tf.Tensor,
    { keyPaddingMask, ...options }: AttentionCallOptions,
  ): [output: tf.Tensor, weights: tf.Tensor | null] {
    const axis = this.#batchFirst ? 0 : 1;
    const inputs = [query, key, value].map((x) => tf.expandDims(x, axis)) as [
      tf.Tensor,
      tf.Tensor,
      tf.Tensor,
    ];
    const padding = keyPaddingMask === undefined ? {} : { keyPaddingMask: tf.expandDims(keyPaddingMask, 0) };
    const [output, weights] = this.forward(...inputs, { ...options, ...padding });
    return [tf.squeeze(output, [axis]), weights === null ? null : tf.squeeze(weights, [0])];
  }

  /** Returns queries, keys and values by head, [N, L or S, heads, embedDim / heads]. */
  #projected(query: tf.Tensor, key: tf.Tensor, value: tf.Tensor): Heads {
    const dim = this.#dim;
    const weights = this.#weights();
    const biases = this.in_proj_bias === null ? null : tf.split(this.in_proj_bias.tensor, 3);
    const projected = [query, key, value].map((x, i) => {
      const weight = weights[i] as tf.Tensor; // there are three weights
      const y = linear(x, weight, biases?.[i] ?? tf.zeros([dim]));
      const [batch = 0, length = 0] = y.shape;
      return tf.reshape(y, [batch, length, this.#heads, dim / this.#heads]);
    });
    return projected as Heads;
  }

  #weights(): tf.Tensor[] {
    if (this.in_proj_weight !== null) return tf.split(this.in_proj_weight.tensor, 3);
    return [this.q_proj_weight, this.k_proj_weight, this.v_proj_weight].flatMap((part) => part?.tensor ?? []);
  }

  /** Returns the sum of the masks of scores [N, heads, L, S]; null if there is none. */
  #mask(
    scores: tf.Tensor,
    { keyPaddingMask, attnMask, isCausal = false }: AttentionCallOptions,
  ): tf.Tensor | null {
    const [batch = 0, heads = 0, queries = 0, keys = 0] = scores.shape;
    const masks: tf.Tensor[] = [];
    if (isCausal && attnMask === undefined) masks.push(causalMask(queries, keys));
    if (attnMask !== undefined) {
      const shape = attnMask.rank === 3 ? [batch, heads, queries, keys] : [1, 1, queries, keys];
      masks.push(additiveMask(attnMask, shape));
    }
    if (keyPaddingMask !== undefined) masks.push(additiveMask(keyPaddingMask, [batch, 1, 1, keys]));
    const [first = null, ...others] = masks;
    return first === null ? null : others.reduce((sum: tf.Tensor, mask) => tf.add(sum, mask), first);
  }

  #requireFit(query: tf.Tensor, key: tf.Tensor, value: tf.Tensor): void {
    const lengthAxis = this.#batchFirst ? 1 : 0;
    const fits =
      [query, key, value].every(({ rank }) => rank === 3) &&
      query.shape[2] === this.#dim &&
      key.shape[lengthAxis] === value.shape[lengthAxis] &&
      [key, value].every(({ shape }) => shape[1 - lengthAxis] === query.shape[1 - lengthAxis]);
    if (fits) return;
    throw new ShardlabError(
      'SHAPE',
      `nn.MultiheadAttention at '${this.path}': query [${query.shape}], key [${key.shape}] and value [${value.shape}] do not ` +
        `fit; with batchFirst ${this.#batchFirst} they must be ${this.#batchFirst ? '[N, L, …]' : '[L, N, …]'}, and the ` +
        `query's last dim must be ${this.#dim}.`,
    );
  }
}
