import { z } from 'zod';
import { type Family, family, type HubSizes } from './family';
import { decoderKeys, decoderSizes } from './llama';
import { size } from './sizes';

/** Keys of decoders with experts in their layers; only plans know these models. */
const keys = decoderKeys.extend({
  num_experts: size.nullish(),
  num_local_experts: size.nullish(),
  n_routed_experts: size.nullish(),
  num_experts_per_tok: size,
  moe_intermediate_size: size.nullish(),
  n_shared_experts: z.int().min(0).nullish(),
  shared_expert_intermediate_size: size.nullish(),
  first_k_dense_replace: z.int().min(0).nullish(),
});

/** Keys of latent attention (DeepSeek-V2 and its successors). */
const latentKeys = keys.extend({
  n_routed_experts: size,
  q_lora_rank: size.nullish(),
  kv_lora_rank: size,
  qk_nope_head_dim: size,
  qk_rope_head_dim: size,
  v_head_dim: size,
});

/**
 * Returns the routed experts of a layer, the shared experts that every token visits, and the number of first layers without
 * experts.
 */
function sizesOf(
  config: z.output<typeof keys>,
  { sharedGate = false, routerBias = false, ...more }: Omit<HubSizes, 'kind'> = {},
): HubSizes {
  const width = config.moe_intermediate_size ?? config.intermediate_size;
  return {
    ...decoderSizes(config),
    moe: {
      experts: config.num_experts ?? config.num_local_experts ?? config.n_routed_experts,
      topK: config.num_experts_per_tok,
      ffn: width,
      sharedFfn: config.shared_expert_intermediate_size ?? (config.n_shared_experts ?? 0) * width,
      sharedGate,
      routerBias,
      denseLayers: config.first_k_dense_replace ?? 0,
    },
    ...more,
  };
}

/** Makes a family whose config has its number of experts under `counted`. */
function withExperts(
  counted: 'num_experts' | 'num_local_experts' | 'n_routed_experts',
  more: Omit<HubSizes, 'kind'> = {},
): Family {
  const required = keys.extend({ [counted]: size }) as unknown as typeof keys; // one of its keys is required
  return family(required, (config) => sizesOf(config, more));
}

function latent(routerBias = false): Family {
  return family(latentKeys, (config) =>
    sizesOf(config, {
      routerBias,
      headDim: config.qk_nope_head_dim + config.qk_rope_head_dim,
      mla: {
        queryRank: config.q_lora_rank ?? 0,
        keyRank: config.kv_lora_rank,
        ropeDim: config.qk_rope_head_dim,
        valueDim: config.v_head_dim,
      },
    }),
  );
}

/** Families by `model_type`. Source: the configuration and modeling files of transformers. */
export const MIXTURES: Readonly<Record<string, Family>> = {
  mixtral: withExperts('num_local_experts'),
  qwen2_moe: withExperts('num_experts', { qkvBias: true, sharedGate: true }),
  qwen3_moe: withExperts('num_experts', { qkNorm: true }),
  deepseek_v2: latent(),
  deepseek_v3: latent(true),
  kimi_k2: latent(true),
  glm4_moe: withExperts('n_routed_experts', { qkvBias: true, routerBias: true }),
};
