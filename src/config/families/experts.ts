import { type Family, family, type HubSizes, type Words } from './family';
import { DECODER, decoderSizes } from './llama';

/** Keys of decoders with experts in their layers; only plans know these models. */
const KEYS = {
  ...DECODER,
  topK: 'num_experts_per_tok',
  expertFfn: 'moe_intermediate_size?',
  numShared: 'n_shared_experts?',
  sharedFfn: 'shared_expert_intermediate_size?',
  denseLayers: 'first_k_dense_replace?',
} as const;

/** Keys of latent attention (DeepSeek-V2 and its successors). */
const LATENT = {
  ...KEYS,
  numExperts: 'n_routed_experts',
  queryRank: 'q_lora_rank?',
  keyRank: 'kv_lora_rank',
  flatDim: 'qk_nope_head_dim',
  ropeDim: 'qk_rope_head_dim',
  valueDim: 'v_head_dim',
} as const;

/**
 * Returns the routed experts of a layer, the shared experts that every token visits, and the number of first layers without
 * experts.
 */
function sizesOf(
  words: Words<typeof KEYS> & { readonly numExperts: number },
  { sharedGate = false, routerBias = false, ...more }: Omit<HubSizes, 'kind'> = {},
): HubSizes {
  const { ffn, expertFfn = ffn, numShared = 0, sharedFfn = numShared * expertFfn, denseLayers = 0 } = words;
  const { numExperts: experts, topK } = words;
  const moe = { experts, topK, ffn: expertFfn, sharedFfn, sharedGate, routerBias, denseLayers };
  return { ...decoderSizes(words), moe, ...more };
}

function latent(routerBias = false): Family {
  return family(LATENT, (words) => {
    const { queryRank = 0, keyRank, ropeDim, valueDim, flatDim } = words;
    const mla = { queryRank, keyRank, ropeDim, valueDim };
    return sizesOf(words, { routerBias, mla, headDim: flatDim + ropeDim });
  });
}

/** Families by `model_type`. Source: the configuration and modeling files of transformers. */
export const MIXTURES: Readonly<Record<string, Family>> = {
  mixtral: family({ ...KEYS, numExperts: 'num_local_experts' } as const, (words) => sizesOf(words)),
  qwen2_moe: family({ ...KEYS, numExperts: 'num_experts' } as const, (words) =>
    sizesOf(words, { qkvBias: true, sharedGate: true }),
  ),
  qwen3_moe: family({ ...KEYS, numExperts: 'num_experts' } as const, (words) =>
    sizesOf(words, { qkNorm: true }),
  ),
  deepseek_v2: latent(),
  deepseek_v3: latent(true),
  kimi_k2: latent(true),
  glm4_moe: family({ ...KEYS, numExperts: 'n_routed_experts' } as const, (words) =>
    sizesOf(words, { qkvBias: true, routerBias: true }),
  ),
};
