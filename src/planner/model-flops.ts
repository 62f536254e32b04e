import { attentionMatrices } from './block-params';
import type { ModelShape } from './model-shape';

/**
 * Returns the floating point operations of training on `samples` sequences, without recomputation. A token has six operations
 * per matmul parameter, and 12 × layers × seq × dim for attention (the full matrix, although causal kernels skip half).
 * `keys` is the number of keys per query; in packed rows it is less than seq. Source: Narayanan et al. 2021, appendix, with a
 * factor 3 for forward and backward.
 */
export function modelFlops(model: ModelShape, samples: number, keys = model.seq): number {
  const { layers, dim, heads, headDim, ffn, gatedFfn, logits, seq, crossTokens, moe, mla } = model;
  const own = attentionMatrices(model).reduce((sum, { rows, columns }) => sum + rows * columns, 0);
  const feed = (gatedFfn ? 3 : 2) * dim * ffn + (moe === null ? 0 : dim * moe.experts);
  const cross = crossTokens === 0 ? 0 : 2 * dim * heads * headDim * (1 + crossTokens / seq);
  const context = heads * (headDim + (mla?.valueDim ?? headDim)) * (keys + crossTokens);
  return 6 * samples * seq * (layers * (own + feed + cross + context) + logits * dim);
}
