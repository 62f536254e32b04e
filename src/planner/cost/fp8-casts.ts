import type { Layout } from '../layout';

/** Bytes per cast value: read in 16 bits, written in fp8 twice, by rows for one matmul and by columns for another matmul. */
const CAST_BYTES = 4;

/**
 * Returns the bytes per token that a layer's casts to fp8 move. Forward casts the inputs of the last matmuls of attention and of
 * the feed-forward (norms cast the inputs of the first matmuls). Backward casts the gradients of all four matmuls' outputs.
 * Experts' rows are cast after their exchange. Weights are cast once per step. Source: Transformer Engine's layernorm_linear.py,
 * linear.py and grouped_linear.py.
 */
export function castBytes({ model, tp, precision }: Layout): {
  readonly forward: number;
  readonly backward: number;
} {
  if (precision !== 'fp8') return { forward: 0, backward: 0 };
  const { dim, heads, kvHeads, headDim, ffn, gatedFfn, moe } = model;
  const rows = moe === null ? 0 : moe.topK * dim;
  const queries = ((heads + 2 * kvHeads) * headDim) / tp;
  const opened = ((gatedFfn ? 2 : 1) * ffn) / tp;
  return {
    forward: CAST_BYTES * ((heads * headDim + ffn) / tp + rows),
    backward: CAST_BYTES * (queries + opened + dim + Math.max(dim, rows)),
  };
}
