import { z } from 'zod';
import { CP_KINDS, parseOptions, requireKnownOptions, type ShapeOf, wholeSchema } from '../../config';
import { alias, ConfigError, withGradients } from '../../core';
import * as tf from '../../core/tf';
import { type Attend, attention, type PositionRange } from '../../nn';
import { initDeviceMesh, type ProcessGroup } from '../../wire';
import { exchangeOptions } from '../exchange-options';
import { ringAttention } from './ring-attention';
import {
  cutSequence,
  rangesOf,
  restoreSequence,
  SEQUENCE_ORDERS,
  type SequenceCut,
  type SequenceOrder,
} from './sequence-order';
import { exchangingHeads } from './ulysses-attention';

/** How ranks compute attention over a sequence that is divided over them; 'usp' combines Ulysses and a ring. */
export const CONTEXT_PARALLEL_KINDS = [...CP_KINDS, 'usp'] as const;
export type ContextParallelKind = (typeof CONTEXT_PARALLEL_KINDS)[number];

/** Options of context parallelism. */
export interface ContextParallelOptions {
  /** How ranks compute attention. Default 'ulysses'. */
  readonly kind?: ContextParallelKind | undefined;
  /**
   * The number of neighbouring ranks that exchange heads. Kind 'usp' needs this number, and other kinds refuse it. Ranks with
   * the same heads form a ring.
   */
  readonly ulyssesDegree?: number | undefined;
  /** The order in which a ring's ranks have the positions. Default 'zigzag'. */
  readonly order?: SequenceOrder | undefined;
}

const OPTIONS = {
  kind: z.enum(CONTEXT_PARALLEL_KINDS).default('ulysses'),
  ulyssesDegree: wholeSchema,
  order: z.enum(SEQUENCE_ORDERS),
} satisfies ShapeOf<ContextParallelOptions>;

/**
 * Divides sequences over the ranks of a group, and computes attention over all of their positions.
 *
 * [Note: two-level context parallelism] Ulysses can use at most one rank per head, and its exchanges go between all ranks; a
 * ring takes any number of ranks, and each rank sends to one neighbour only. With 'usp', neighbouring ranks (of one node)
 * exchange heads, so that each rank has all positions of these neighbours for some heads. Then the ranks with the same heads
 * form a ring. Source: Fang and Zhao 2024, "USP: A Unified Sequence Parallelism Approach".
 */
export class ContextParallel {
  readonly kind: ContextParallelKind;
  /** The ranks that have parts of the same sequences. */
  readonly group: ProcessGroup;
  /** The ranks that exchange heads; null if no rank does. */
  readonly ulysses: ProcessGroup | null;
  /** The ranks of the ring that keys and values travel round; null if there is no ring. */
  readonly ring: ProcessGroup | null;
  /** The order in which the ranks have the positions. */
  readonly order: SequenceOrder;

  /** All ranks of the group must give the same options. Throws: CONFIG for unknown and contradictory options. */
  constructor(group: ProcessGroup, options: ContextParallelOptions = {}) {
    const { kind, ulyssesDegree, order } = checked(group, options);
    this.kind = kind;
    this.group = group;
    const degree = ulyssesDegree ?? (kind === 'ring' ? 1 : group.size);
    const isBoth = degree > 1 && degree < group.size;
    const mesh = isBoth ? initDeviceMesh(group, [group.size / degree, degree], ['ring', 'ulysses']) : null;
    this.ulysses = mesh?.get('ulysses') ?? (degree > 1 ? group : null);
    this.ring = mesh?.get('ring') ?? (degree > 1 ? null : group);
    this.order = this.ring === null ? 'contiguous' : (order ?? 'zigzag');
  }

  /** Returns which part of a sequence a rank of the group has; the default is this rank. */
  cutOf(rank = this.group.rank): SequenceCut {
    const degree = this.ulysses?.size ?? 1;
    return {
      ring: { rank: Math.floor(rank / degree), size: this.ring?.size ?? 1 },
      ulysses: { rank: rank % degree, size: degree },
      order: this.order,
    };
  }

  /** Returns the positions that this rank has. Throws: SHAPE if a sequence of this length does not divide evenly. */
  positions(length: number): PositionRange[] {
    return rangesOf(length, this.cutOf());
  }

  /** Returns this rank's part of x along the sequence's dim. Throws: SHAPE if the sequence does not divide evenly. */
  cut(x: tf.Tensor, dim = 1): tf.Tensor {
    return cutSequence(x, this.cutOf(), dim);
  }

  /** Returns the whole sequence from the parts of all ranks. Backward sums all ranks' gradients and returns this rank's part. */
  gather(x: tf.Tensor, dim = 1): tf.Tensor {
    const { group } = this;
    if (group.size === 1) return alias(x);
    const options = exchangeOptions(undefined);
    const cuts = group.ranks.map((_, rank) => this.cutOf(rank));
    return withGradients([x], () => {
      const parts = tf.unstack(group.allGather(tf.expandDims(x), options).wait());
      const gradients = (dy: tf.Tensor): tf.Tensor[] => {
        const rows = tf.stack(cuts.map((cut) => cutSequence(dy, cut, dim)));
        return [tf.reshape(group.reduceScatter(rows, 'sum', options).wait(), x.shape)];
      };
      return { value: restoreSequence(parts, cuts, dim), gradients };
    });
  }

  /**
   * Returns attention over the positions of all ranks. Options and shapes are as in `nn.attention`, but each rank has a part of
   * the positions. Throws: SHAPE if the ranks do not divide the heads; CONFIG for a bias and for unknown options.
   */
  attention(...[q, k, v, options]: Parameters<Attend>): tf.Tensor {
    requireKnownOptions('attention(q, k, v, { … })', options, ['causal', 'kind', 'scale', 'bias']);
    return this.attend(undefined)(q, k, v, options);
  }

  /** Returns the function `attention`. Ledgers count its bytes under the name `module()`; default: the module that runs. */
  attend(module: (() => string) | undefined): Attend {
    return (q, k, v, { causal, scale, kind, bias }) => {
      if (bias !== undefined) throw new ConfigError(NO_BIAS);
      const name = module?.();
      const { ring, ulysses } = this;
      const within: Attend =
        ring === null
          ? attention
          : (...[a, b, c]) =>
              ringAttention(a, b, c, { group: ring, causal, scale, order: this.order, module: name });
      const own = (...heads: [tf.Tensor, tf.Tensor, tf.Tensor]): tf.Tensor =>
        within(...heads, { causal, scale, kind });
      return ulysses === null
        ? own(q, k, v)
        : exchangingHeads(q, k, v, { group: ulysses, module: name }, own);
    };
  }

  /**
   * Returns the mean of a loss over the ranks. On each rank, the gradient is the gradient of the rank's own loss. A strategy
   * averages these gradients over the ranks; the result is the gradient of the mean loss.
   */
  mean(loss: tf.Tensor): tf.Tensor {
    if (this.group.size === 1) return alias(loss);
    return withGradients([loss], () => {
      const value = this.group.allReduce(tf.add(loss, 0), 'avg', { cause: 'loss' }).wait();
      return { value, gradients: (dy) => [alias(dy)] };
    });
  }
}

const NO_BIAS =
  'attention under context parallelism takes no bias, because a rank has the scores of only a part of the positions; leave the bias out';

function checked(group: ProcessGroup, options: ContextParallelOptions) {
  const parsed = parseOptions('context parallelism { … }', options, OPTIONS);
  const { kind, ulyssesDegree: degree, order } = parsed;
  if (kind === 'ulysses' && order !== undefined) {
    throw new ConfigError(
      "context parallelism: order is a setting of rings, and kind 'ulysses' has no ring; leave order out",
    );
  }
  if ((kind === 'usp') !== (degree !== undefined)) {
    throw new ConfigError(
      degree === undefined
        ? "context parallelism: kind 'usp' needs ulyssesDegree, the number of neighbouring ranks that exchange heads; give it"
        : `context parallelism: ulyssesDegree ${degree} is for kind 'usp', but kind is '${kind}'; leave it out, or give kind 'usp'`,
    );
  }
  if (degree !== undefined && !(degree >= 1 && group.size % degree === 0)) {
    throw new ConfigError(
      `context parallelism: ulyssesDegree ${degree} does not divide the ${group.size} context-parallel ranks; give a divisor`,
      { details: { degree, ranks: group.size } },
    );
  }
  return parsed;
}
