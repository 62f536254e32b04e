import { z } from 'zod';
import { size } from '../config';

/** The matmuls that have biases. 'qkv': queries, keys and values; 'feed': all matmuls of the feed-forward. */
export const BIASES = ['none', 'qkv', 'attention', 'feed', 'all'] as const;

export type Bias = (typeof BIASES)[number];

export const moeSchema = z.strictObject({
  experts: size,
  topK: size,
  /** Width of one expert. */
  ffn: size,
  /** Total width of the shared experts, which every token visits. */
  sharedFfn: z.int().min(0).default(0),
  /** Whether the shared experts have a gate (Qwen2-MoE). */
  sharedGate: z.boolean().default(false),
  /** Whether the router has a bias per expert, which is set from the expert's load and has no gradient (DeepSeek-V3). */
  routerBias: z.boolean().default(false),
  /** The number of first layers that have a feed-forward of width `ffn` in place of experts. */
  denseLayers: z.int().min(0).default(0),
});

export const mlaSchema = z.strictObject({
  /** Rank of the low-rank projection of the queries; 0: one matrix of full rank. */
  queryRank: z.int().min(0),
  keyRank: size,
  ropeDim: size,
  valueDim: size,
});

export type ExpertSizes = Readonly<z.output<typeof moeSchema>>;
export type LatentAttention = Readonly<z.output<typeof mlaSchema>>;

/** The sizes of one block. */
export interface BlockSizes {
  readonly layers: number;
  readonly dim: number;
  readonly heads: number;
  readonly kvHeads: number;
  readonly headDim: number;
  readonly ffn: number;
  readonly gatedFfn: boolean;
  readonly moe: ExpertSizes | null;
  readonly mla: LatentAttention | null;
  /** Parameters of the routed experts of a layer; the mean over the layers. */
  readonly expertParams: number;
}

/** Parameters of a block without its norms; the mean over the layers if only some layers have experts. */
export function blockParams(base: BlockSizes, bias: Bias): number {
  const { dim, heads, kvHeads, headDim, mla } = base;
  const qkv = (heads + 2 * kvHeads) * headDim;
  const attention = attentionMatrices(base).reduce((sum, { rows, columns }) => sum + rows * columns, 0);
  const norms = mla === null ? 0 : mla.queryRank + mla.keyRank;
  const feed = base.ffn + dim;
  const biases = { none: 0, qkv, attention: qkv + dim, feed, all: qkv + dim + feed }[bias];
  return attention + norms + feedParams(base) + biases;
}

function feedParams({ dim, ffn, gatedFfn, moe, layers }: BlockSizes): number {
  const matrices = (gatedFfn ? 3 : 2) * dim;
  if (moe === null) return matrices * ffn;
  const withExperts =
    matrices * (moe.experts * moe.ffn + moe.sharedFfn) +
    (dim + (moe.routerBias ? 1 : 0)) * moe.experts +
    (moe.sharedGate ? dim : 0);
  return ((layers - moe.denseLayers) * withExperts + moe.denseLayers * matrices * ffn) / layers;
}

/** Returns the share of the layers that have experts. */
export function expertShare({ layers }: Pick<BlockSizes, 'layers'>, { denseLayers }: ExpertSizes): number {
  return (layers - denseLayers) / layers;
}

/** If the layers have experts, replaces the width of the feed-forward by the total width of the experts that a token visits. */
export function withExperts<Sizes extends BlockSizes>(base: Sizes): Sizes {
  const { moe, ffn, gatedFfn, dim } = base;
  if (moe === null) return base;
  const share = expertShare(base, moe);
  return {
    ...base,
    ffn: share * (moe.topK * moe.ffn + moe.sharedFfn) + (1 - share) * ffn,
    expertParams: share * moe.experts * (gatedFfn ? 3 : 2) * dim * moe.ffn,
  };
}

/** A matrix of attention. `isWhole`: every rank of tensor parallelism has the whole matrix, because it projects to a low rank. */
interface AttentionMatrix {
  readonly rows: number;
  readonly columns: number;
  readonly isWhole?: boolean;
}

/**
 * Returns the matrices of self-attention. Latent attention projects to a low rank, and from the low rank to heads. Queries and
 * keys have headDim elements per head; the keys of all heads share ropeDim elements. Source: DeepSeek-V2, section 2.1, and the
 * model's code.
 */
export function attentionMatrices({
  dim,
  heads,
  kvHeads,
  headDim,
  mla,
}: Pick<BlockSizes, 'dim' | 'heads' | 'kvHeads' | 'headDim' | 'mla'>): readonly AttentionMatrix[] {
  if (mla === null) {
    return [
      { rows: dim, columns: (heads + 2 * kvHeads) * headDim },
      { rows: heads * headDim, columns: dim },
    ];
  }
  const { queryRank, keyRank, ropeDim, valueDim } = mla;
  const queries =
    queryRank === 0
      ? [{ rows: dim, columns: heads * headDim }]
      : [
          { rows: dim, columns: queryRank, isWhole: true },
          { rows: queryRank, columns: heads * headDim },
        ];
  return [
    ...queries,
    { rows: dim, columns: keyRank + ropeDim, isWhole: true },
    { rows: keyRank, columns: heads * (headDim - ropeDim + valueDim) },
    { rows: heads * valueDim, columns: dim },
  ];
}
