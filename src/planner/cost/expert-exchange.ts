import type { Bytes, Seconds } from '../../core';
import { type ExpertSizes, expertShare } from '../block-params';
import type { Calibration } from '../calibration';
import type { Layout } from '../layout';
import { exchangeSeconds, type GroupPlace, groupPlaceOf } from './collective';
import { ITEM_BYTES } from './gemm';

/** Copies of a token that one exchange sends over the links within a node, and over the network cards. */
interface Copies {
  readonly inside: number;
  readonly outside: number;
}

/**
 * Returns how many copies of a token are sent if it visits `topK` experts, all equally likely. NCCL's all-to-all sends one copy
 * to each expert on another rank. DeepEP and HybridEP send one copy to each node and, within the node, one copy to each rank that
 * has at least one of the experts. Source: deepseek-ai/DeepEP, README.md and its branch hybrid-ep.
 */
export function copiesOf(
  { size, perNode }: GroupPlace,
  topK: number,
  dispatcher: Layout['dispatcher'],
): Copies {
  if (dispatcher === 'alltoall') {
    return { inside: (topK * (perNode - 1)) / size, outside: topK * (1 - perNode / size) };
  }
  const nodes = size / perNode;
  return {
    inside: (reached(size, topK) * (perNode - 1)) / perNode,
    outside: (reached(nodes, topK) * (nodes - 1)) / nodes,
  };
}

/** Returns the mean number of ranks or nodes that are drawn at least once, if `draws` draws choose among n with equal chances. */
function reached(n: number, draws: number): number {
  return n * (1 - (1 - 1 / n) ** draws);
}

/**
 * Returns the time of the exchanges in one pass of a layer, and the bytes that a GPU sends. One exchange sends every token to its
 * experts' ranks, and another exchange sends the results back. Under tensor parallelism each rank sends its part of the tokens.
 * Ranks send to each other directly, in 16 bits. Source: Megatron-LM's fused_a2a.py.
 */
export function expertExchangeCost(layout: Layout, tokens: number, cal: Calibration) {
  const { model, tp, ep, hardware, precision, dispatcher } = layout;
  const { moe } = model;
  if (moe === null || ep === 1) return { seconds: 0 as Seconds, bytes: 0 as Bytes };
  const share = expertShare(model, moe);
  const place = groupPlaceOf(ep, tp, hardware.gpusPerNode);
  const { inside, outside } = copiesOf(place, moe.topK, dispatcher);
  const row = (tokens * model.dim * ITEM_BYTES[precision]) / tp;
  const once = exchangeSeconds({ inside: row * inside, outside: row * outside }, hardware, cal);
  return { seconds: 2 * share * once, bytes: 2 * share * row * (inside + outside) };
}

/**
 * Returns the bytes per token that one pass of a layer moves on its GPU to order the tokens' copies by expert, in 16 bits.
 * Without an exchange: tokens are copied to their experts' rows, and results are added. With NCCL's all-to-all, copies are
 * ordered by rank before the exchange and by expert after it, and both again on the way back. DeepEP and HybridEP order copies
 * while they send them; only the received tokens are copied to the experts' rows. Source: Megatron-LM's moe/token_dispatcher.py
 * (permute, sort_chunks_by_idxs).
 */
export function permutedBytes(
  { model, tp, ep, sequenceParallel, dispatcher }: Layout,
  moe: ExpertSizes,
): number {
  const { topK } = moe;
  const share = expertShare(model, moe);
  const rows =
    ep === 1 ? 2 + 2 * topK : dispatcher === 'alltoall' ? 2 + 6 * topK : 2 * topK + 2 * reached(ep, topK);
  return (share * 2 * rows * model.dim) / (sequenceParallel ? tp : 1);
}
