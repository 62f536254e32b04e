import type { ModelShape } from '../model-shape';

/**
 * Floating-point operations that training on `samples` sequences takes, without what is computed again: six a
 * parameter of a product and token, and 12 × layers × seq × dim a token for attention (all of it, though a causal
 * kernel skips half). Source: Narayanan et al. 2021, appendix, with a factor 3 for forward and backward.
 */
export function modelFlops(model: ModelShape, samples: number): number {
  const { layers, dim, heads, kvHeads, headDim, ffn, gatedFfn, logits, seq, crossTokens } = model;
  const own = dim * (heads + 2 * kvHeads) * headDim + heads * headDim * dim;
  const feed = (gatedFfn ? 3 : 2) * dim * ffn;
  const cross = crossTokens === 0 ? 0 : 2 * dim * heads * headDim * (1 + crossTokens / seq);
  const context = 2 * heads * headDim * (seq + crossTokens);
  return 6 * samples * seq * (layers * (own + feed + cross + context) + logits * dim);
}
