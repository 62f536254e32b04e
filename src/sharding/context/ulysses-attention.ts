import { type AttentionKind, requireKnownOptions } from '../../config';
import { ShardlabError, withGradients } from '../../core';
import * as tf from '../../core/tf';
import { currentEngine } from '../../engine';
import { attention } from '../../nn';
import type { ProcessGroup } from '../../wire';
import { exchangeOptions } from '../exchange-options';
import { DIVIDED_ATTENTION_OPTIONS, type DividedAttentionOptions } from './attention-options';
import { leastCommonMultiple } from './sequence-order';

/** Options of `ulyssesAttention`. The ranks' parts are consecutive, in rank order. */
export interface UlyssesOptions extends DividedAttentionOptions {
  /** How a rank computes its heads. Default 'flash'. */
  readonly kind?: AttentionKind | undefined;
}

/**
 * Returns attention over a sequence that is divided over the P ranks of a group. One all-to-all for each of q, k and v gives
 * every rank all positions of some heads. The rank computes these heads exactly, and a fourth all-to-all gives every rank its own
 * positions of all heads. Backward has four all-to-alls too. So a rank receives 8 times bsh (P - 1) / P² elements per layer and
 * step (b sequences of s positions, h values per position); the number is less if k and v have fewer heads.
 * Shapes: q [B, T / P, H, D], k and v [B, T / P, G, D] → [B, T / P, H, D]. H / G consecutive heads of q share one head of k
 * and v; if P does not divide G, each of these heads is sent several times, so that P divides the number of sent heads.
 * Source: Jacobs et al. 2023, "DeepSpeed Ulysses". Throws: SHAPE if P does not divide H; CONFIG for unknown options.
 */
export function ulyssesAttention(
  q: tf.Tensor,
  k: tf.Tensor,
  v: tf.Tensor,
  options: UlyssesOptions,
): tf.Tensor {
  requireKnownOptions('ulyssesAttention(q, k, v, { … })', options, [...DIVIDED_ATTENTION_OPTIONS, 'kind']);
  const { causal, scale, kind = 'flash' } = options;
  return exchangingHeads(q, k, v, options, (...parts) => attention(...parts, { causal, scale, kind }));
}

/** Computes `attend` on all positions of this rank's heads; see `ulyssesAttention`. */
export function exchangingHeads(
  q: tf.Tensor,
  k: tf.Tensor,
  v: tf.Tensor,
  { group, module }: Pick<UlyssesOptions, 'group' | 'module'>,
  attend: (q: tf.Tensor, k: tf.Tensor, v: tf.Tensor) => tf.Tensor,
): tf.Tensor {
  if (group.size === 1) return attend(q, k, v);
  const heads = q.shape[2] ?? 0;
  requireUlyssesHeads(heads, group.size);
  const all = (x: tf.Tensor): tf.Tensor => headsOfSequence(x, group, module);
  const [ownQ, ownK, ownV] = [all(q), all(repeated(k, group.size)), all(repeated(v, group.size))];
  return sequenceOfHeads(attend(ownQ, ownK, ownV), group, module);
}

/** Throws: SHAPE if the ranks do not divide the heads. */
export function requireUlyssesHeads(heads: number, ranks: number): void {
  if (heads % ranks === 0) return;
  const divisors = Array.from({ length: heads }, (_, i) => i + 1).filter((size) => heads % size === 0);
  throw new ShardlabError(
    'SHAPE',
    `Ulysses gives each of ${ranks} ranks the same number of heads, and ${ranks} does not divide ${heads} heads; ` +
      `use ${divisors.join(', ')} ranks, or ring attention, which takes any number of heads`,
    { details: { heads, ranks } },
  );
}

/** Repeats each head of keys or values, so that the ranks divide the heads and each rank has the heads that its queries use. */
function repeated(x: tf.Tensor, ranks: number): tf.Tensor {
  const [batch = 0, positions = 0, groups = 0, headDim = 0] = x.shape;
  const times = leastCommonMultiple(groups, ranks) / groups;
  if (times === 1) return x;
  const single = tf.reshape(x, [batch, positions, groups, 1, headDim]);
  const copies = tf.concat(new Array<tf.Tensor>(times).fill(single), 3);
  return tf.reshape(copies, [batch, positions, groups * times, headDim]);
}

// B sequences, T positions of all P ranks together, H heads of all ranks, D values per head.

/**
 * Returns all positions of this rank's heads, from this rank's positions of all heads. The positions are in rank order.
 * Shapes: [B, T / P, H, D] → [B, T, H / P, D].
 */
function headsOfSequence(x: tf.Tensor, group: ProcessGroup, module?: string): tf.Tensor {
  const [batch = 0, own = 0, heads = 0, headDim = 0] = x.shape;
  const split = tf.reshape(x, [batch, own, group.size, heads / group.size, headDim]);
  const received = exchanged(tf.transpose(split, [2, 0, 1, 3, 4]), group, module);
  const inOrder = tf.transpose(received, [1, 0, 2, 3, 4]);
  return tf.reshape(inOrder, [batch, own * group.size, heads / group.size, headDim]);
}

/**
 * Returns this rank's positions of all heads, from all positions of this rank's heads.
 * Shapes: [B, T, H / P, D] → [B, T / P, H, D].
 */
function sequenceOfHeads(x: tf.Tensor, group: ProcessGroup, module?: string): tf.Tensor {
  const [batch = 0, positions = 0, own = 0, headDim = 0] = x.shape;
  const split = tf.reshape(x, [batch, group.size, positions / group.size, own, headDim]);
  const received = exchanged(tf.transpose(split, [1, 0, 2, 3, 4]), group, module);
  const inOrder = tf.transpose(received, [1, 2, 0, 3, 4]);
  return tf.reshape(inOrder, [batch, positions / group.size, own * group.size, headDim]);
}

/** Sends row r of x to rank r; row r of the result comes from rank r. Backward exchanges the gradient in the same way. */
function exchanged(x: tf.Tensor, group: ProcessGroup, module: string | undefined): tf.Tensor {
  const options = exchangeOptions(module);
  const exchange = (rows: tf.Tensor): tf.Tensor => {
    const received = group.allToAll(rows, options).wait();
    currentEngine()?.retag(received, { cause: 'temp', module: options.module });
    return received;
  };
  return withGradients([x], () => ({ value: exchange(x), gradients: (dy) => [exchange(dy)] }));
}
