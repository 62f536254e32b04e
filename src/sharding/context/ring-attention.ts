import { oneOf, requireKind, requireKnownOptions } from '../../config';
import { ShardlabError, withGradients } from '../../core';
import type * as tf from '../../core/tf';
import { attention } from '../../nn';
import { exchangeOptions } from '../exchange-options';
import { DIVIDED_ATTENTION_OPTIONS, type DividedAttentionOptions } from './attention-options';
import { ringBlock } from './ring-blocks';
import { type Ring, ringBackward, ringForward } from './ring-passes';
import { SEQUENCE_ORDERS, type SequenceOrder } from './sequence-order';

// B sequences, T positions of all P ranks together, H heads of queries, G of keys and values, D values per head.

/** Options of `ringAttention`. */
export interface RingOptions extends DividedAttentionOptions {
  /** The order in which the ranks have the positions. Default 'zigzag', in which all ranks compute equally much. */
  readonly order?: SequenceOrder | undefined;
}

const ORDER = oneOf(...SEQUENCE_ORDERS);

/**
 * Returns attention over a sequence that is divided over the P ranks of a group.
 *
 * [Note: ring attention] The parts of k and v travel round the ring; while a rank computes with one part, it receives the
 * next. Each step computes the attention to one part of the keys, and the log-sum-exp of the scores; with these log-sum-exps, the
 * steps' results are combined exactly. Backward sends k and v round again. The gradients of each part travel one step behind
 * the part, so that every rank adds its share to these gradients; in the last step, the gradients return to the rank that has
 * the part. With b sequences of s positions and h values of k per position, a rank receives 2bsh (P - 1) / P elements in
 * forward and twice as many in backward.
 *
 * Shapes: q [B, T / P, H, D], k and v [B, T / P, G, D] → [B, T / P, H, D]; H / G consecutive heads of q share one head of k
 * and v. Source: Liu et al. 2023, "Ring Attention with Blockwise Transformers".
 * Throws: SHAPE if the shapes do not fit together, or if zigzag order cannot halve the rank's part; CONFIG for unknown options.
 */
export function ringAttention(q: tf.Tensor, k: tf.Tensor, v: tf.Tensor, options: RingOptions): tf.Tensor {
  requireKnownOptions('ringAttention(q, k, v, { … })', options, [...DIVIDED_ATTENTION_OPTIONS, 'order']);
  const { group, causal, order = 'zigzag', scale = 1 / Math.sqrt(q.shape[3] ?? 1), module } = options;
  requireKind('ringAttention', 'order', order, ORDER);
  if (group.size === 1) return attention(q, k, v, { causal, scale, kind: 'flash' });
  requireParts(q, k, v, causal && order === 'zigzag');
  const length = q.shape[1] ?? 0;
  const ring: Ring = {
    group,
    scale,
    exchange: exchangeOptions(module),
    block: (from) => ringBlock(group, from, length, { order, isCausal: causal }),
  };
  return withGradients([q, k, v], (save) => {
    const { out, lse } = ringForward(ring, q, k, v);
    save([q, k, v, out, lse]);
    return { value: out, gradients: (dOut, saved) => ringBackward(ring, saved, dOut) };
  });
}

/** Throws: SHAPE unless the shapes fit together and, in zigzag order, the rank's part can be halved. */
function requireParts(q: tf.Tensor, k: tf.Tensor, v: tf.Tensor, hasHalves: boolean): void {
  const [batch = 0, length = 0, heads = 0, headDim = 0] = q.shape;
  const groups = k.shape[2] ?? 0;
  const fits =
    q.rank === 4 &&
    k.shape.join() === [batch, length, groups, headDim].join() &&
    v.shape.join() === k.shape.join() &&
    heads % groups === 0;
  if (!fits) {
    throw new ShardlabError(
      'SHAPE',
      `ringAttention: q [${q.shape}], k [${k.shape}], v [${v.shape}] do not fit together; give q [B, T / ranks, heads, d] and ` +
        'k, v [B, T / ranks, kvHeads, d] of the same positions, where kvHeads divides heads',
    );
  }
  if (!hasHalves || length % 2 === 0) return;
  throw new ShardlabError(
    'SHAPE',
    `ringAttention in zigzag order: a rank's part has an early and a late half, but the part's ${length} positions cannot be ` +
      "halved; use a sequence length that is a multiple of 2 x the number of ranks, or order: 'contiguous'",
    { details: { length } },
  );
}
