/*
 * The names of context and expert parallelism. They need a separate module, because src/rank.ts exports the same names.
 */

import { type ProcessGroup, requireGroup } from '../../wire';
import { ContextParallel, type ContextParallelOptions } from '../context/context-parallel';

export { applyContextParallel } from '../context/apply-context-parallel';
export { ringAttention } from '../context/ring-attention';
export { ulyssesAttention } from '../context/ulysses-attention';
export { applyExpertParallel } from '../experts/apply-expert-parallel';
export { balanceExperts } from '../experts/balance-experts';
export { placeExperts } from '../experts/place-experts';

/**
 * Divides sequences over the ranks of a group, for a model of your own. `cut` returns this rank's part of a sequence, and
 * `positions` returns the positions in this part. `attention` attends to the positions of all ranks; `mean` and `gather`
 * combine the ranks' results. All ranks must call this function with the same options. Throws: CONFIG.
 * @example
 * const parallel = initializeModelParallel({ contextParallelSize: 2 });
 * const context = contextParallel(parallel.cp, { kind: 'ring' });
 * const q = context.cut(tf.ones([2, 8, 4, 16])); // [B, T, heads, d] → [B, T / ranks, heads, d]
 * const mixed = context.attention(q, q, q, { causal: true });
 */
export function contextParallel(group: ProcessGroup, options?: ContextParallelOptions): ContextParallel {
  return new ContextParallel(requireGroup('contextParallel', group), options);
}
