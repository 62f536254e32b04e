import { z } from 'zod';
import type { ModelShapeInput } from '../model-shape';

/** The keys of a config.json of transformers or diffusers that are read. Every family of models reads some of these keys. */
const size = z.number().int().min(1).nullish();
const isSet = z.boolean().nullish();

export const hubConfigSchema = z.looseObject({
  model_type: z.string().optional(),
  _class_name: z.string().optional(),
  hidden_size: size,
  num_hidden_layers: size,
  num_attention_heads: size,
  num_key_value_heads: size,
  head_dim: size,
  intermediate_size: size,
  vocab_size: size,
  max_position_embeddings: size,
  sliding_window: size,
  use_sliding_window: isSet,
  tie_word_embeddings: isSet,
  attention_bias: isSet,
  bias: isSet,
  // ChatGLM
  num_layers: size,
  ffn_hidden_size: size,
  padded_vocab_size: size,
  multi_query_group_num: size,
  add_qkv_bias: isSet,
  seq_length: size,
  // GPT-2, GPT-J
  n_embd: size,
  n_layer: size,
  n_head: size,
  n_inner: size,
  n_positions: size,
  // mixtures of experts
  num_experts: size,
  num_local_experts: size,
  n_routed_experts: size,
  num_experts_per_tok: size,
  moe_intermediate_size: size,
  n_shared_experts: z.number().int().min(0).nullish(),
  shared_expert_intermediate_size: size,
  first_k_dense_replace: z.number().int().min(0).nullish(),
  // latent attention
  q_lora_rank: size,
  kv_lora_rank: size,
  qk_nope_head_dim: size,
  qk_rope_head_dim: size,
  v_head_dim: size,
  // BERT, ViT, T5
  type_vocab_size: size,
  image_size: size,
  patch_size: z.unknown().optional(),
  num_channels: size,
  d_model: size,
  d_ff: size,
  d_kv: size,
  num_heads: size,
  // Wan
  dim: size,
  ffn_dim: size,
  freq_dim: size,
  text_dim: size,
  in_dim: size,
  out_dim: size,
  in_channels: size,
  out_channels: size,
  attention_head_dim: size,
  image_dim: size,
});

export type HubConfig = z.output<typeof hubConfigSchema>;

/** Reads the config of one family of models; `model_type` or `_class_name` of a config names its family. */
type Read = (config: HubConfig) => ModelShapeInput;

/** Returns a size in the config. Throws: TypeError if it is missing; `shapeOfHub` turns the error into a CONFIG error. */
export function need(config: HubConfig, key: keyof HubConfig): number {
  const value = config[key];
  if (typeof value === 'number') return value;
  throw new TypeError(`${String(key)} is missing`);
}

/** The most tokens per sequence if a plan gives no `seq`, because contexts of 128k are rare in training. */
const USUAL_SEQ = 8192;

function llama(config: HubConfig, own: Partial<ModelShapeInput> = {}): ModelShapeInput {
  return {
    kind: 'llama',
    layers: need(config, 'num_hidden_layers'),
    dim: need(config, 'hidden_size'),
    heads: need(config, 'num_attention_heads'),
    kvHeads: config.num_key_value_heads ?? need(config, 'num_attention_heads'),
    headDim: config.head_dim ?? need(config, 'hidden_size') / need(config, 'num_attention_heads'),
    ffn: need(config, 'intermediate_size'),
    vocab: need(config, 'vocab_size'),
    seq: Math.min(config.max_position_embeddings ?? USUAL_SEQ, USUAL_SEQ),
    tied: config.tie_word_embeddings ?? false,
    ...own,
  };
}

/**
 * Returns the routed experts of a layer, the shared experts that every token visits, and the number of first layers without
 * experts.
 */
function experts(
  config: HubConfig,
  count: keyof HubConfig,
  { sharedGate = false, routerBias = false } = {},
): Partial<ModelShapeInput> {
  const width = config.moe_intermediate_size ?? need(config, 'intermediate_size');
  const shared = config.shared_expert_intermediate_size ?? (config.n_shared_experts ?? 0) * width;
  return {
    moe: {
      experts: need(config, count),
      topK: need(config, 'num_experts_per_tok'),
      ffn: width,
      sharedFfn: shared,
      sharedGate,
      routerBias,
      denseLayers: config.first_k_dense_replace ?? 0,
    },
  };
}

function latent(config: HubConfig): Partial<ModelShapeInput> {
  const nope = need(config, 'qk_nope_head_dim');
  const rope = need(config, 'qk_rope_head_dim');
  return {
    headDim: nope + rope,
    mla: {
      queryRank: config.q_lora_rank ?? 0,
      keyRank: need(config, 'kv_lora_rank'),
      ropeDim: rope,
      valueDim: need(config, 'v_head_dim'),
    },
  };
}

/** Returns a GPT with rotary positions: its layers have LayerNorm, biases and an ungated feed-forward. */
function rotaryGpt(config: HubConfig, own: Partial<ModelShapeInput>): ModelShapeInput {
  return llama(config, { kind: 'gpt', gatedFfn: false, learnedPositions: false, ...own });
}

const chatglm: Read = (config) => ({
  ...llama({
    ...config,
    num_hidden_layers: config.num_layers,
    intermediate_size: config.ffn_hidden_size,
    vocab_size: config.padded_vocab_size,
    num_key_value_heads: config.multi_query_group_num,
    max_position_embeddings: config.seq_length,
  }),
  bias: config.add_qkv_bias === true ? 'qkv' : 'none',
});

const gpt2Sizes = (config: HubConfig): HubConfig => ({
  ...config,
  hidden_size: config.n_embd,
  num_hidden_layers: config.n_layer,
  num_attention_heads: config.n_head,
  intermediate_size: config.n_inner ?? 4 * need(config, 'n_embd'),
  max_position_embeddings: config.n_positions,
});

/** Returns layers without a head. BERT has a table of segments, and ViT has patches; both models have learned positions. */
function encoder(config: HubConfig, own: Partial<ModelShapeInput>): ModelShapeInput {
  return {
    ...llama({ ...config, vocab_size: config.vocab_size ?? 1 }),
    kind: 'encoder',
    gatedFfn: false,
    ...own,
  };
}

const vit: Read = (config) => {
  const patch = need(config, 'patch_size');
  const patches = (need(config, 'image_size') / patch) ** 2;
  const inputs = patch ** 2 * (config.num_channels ?? 3);
  return encoder(config, { seq: patches + 1, patchInputs: inputs, vocab: undefined });
};

/** Reads only the encoder of T5, because models of images and videos use only the encoder. */
const t5: Read = (config) => ({
  name: `${config.model_type} encoder`,
  kind: 't5-encoder',
  layers: need(config, 'num_layers'),
  dim: need(config, 'd_model'),
  heads: need(config, 'num_heads'),
  headDim: need(config, 'd_kv'),
  ffn: need(config, 'd_ff'),
  vocab: need(config, 'vocab_size'),
});

/** Reads Wan's own config.json and the config.json of Wan in diffusers. */
const wan: Read = (config) => {
  const heads = config.num_heads ?? need(config, 'num_attention_heads');
  return {
    kind: 'dit',
    layers: need(config, 'num_layers'),
    dim: config.dim ?? heads * need(config, 'attention_head_dim'),
    heads,
    ffn: need(config, 'ffn_dim'),
    freqDim: config.freq_dim ?? undefined,
    textDim: config.text_dim ?? undefined,
    inChannels: config.in_dim ?? need(config, 'in_channels'),
    outChannels: config.out_dim ?? need(config, 'out_channels'),
    imageDim: config.model_type === 'i2v' ? IMAGE_DIM : (config.image_dim ?? undefined),
  };
};

/**
 * Width of the CLIP tokens that Wan2.1's image-to-video models read. Source: Wan2.1's wan/modules/model.py, MLPProj(1280, dim).
 */
const IMAGE_DIM = 1280;

/**
 * Readers by `model_type`, or by `_class_name` for diffusers. Source: the configuration and modeling files of transformers,
 * of diffusers' WanTransformer3DModel, and of the models' own repositories (ChatGLM, Baichuan, InternLM).
 */
export const FAMILIES: Readonly<Record<string, Read>> = {
  llama: (config) => llama(config, { bias: config.attention_bias === true ? 'attention' : 'none' }),
  mistral: llama,
  mixtral: (config) => llama(config, experts(config, 'num_local_experts')),
  qwen2: (config) => llama(config, { bias: 'qkv' }),
  qwen3: (config) => llama(config, { qkNorm: true }),
  qwen2_moe: (config) =>
    llama(config, { bias: 'qkv', ...experts(config, 'num_experts', { sharedGate: true }) }),
  qwen3_moe: (config) => llama(config, { qkNorm: true, ...experts(config, 'num_experts') }),
  deepseek_v2: (config) => llama(config, { ...experts(config, 'n_routed_experts'), ...latent(config) }),
  deepseek_v3: (config) =>
    llama(config, { ...experts(config, 'n_routed_experts', { routerBias: true }), ...latent(config) }),
  kimi_k2: (config) =>
    llama(config, { ...experts(config, 'n_routed_experts', { routerBias: true }), ...latent(config) }),
  glm4_moe: (config) =>
    llama(config, { bias: 'qkv', ...experts(config, 'n_routed_experts', { routerBias: true }) }),
  chatglm,
  glm: (config) => llama(config, { bias: config.attention_bias === true ? 'qkv' : 'none' }),
  baichuan: llama,
  internlm: (config) => llama(config, { bias: config.bias === true ? 'attention' : 'none' }),
  internlm2: (config) => llama(config, { bias: config.bias === true ? 'attention' : 'none' }),
  internlm3: llama,
  gemma: (config) => llama(config, { tied: config.tie_word_embeddings ?? true }),
  gemma2: (config) => llama(config, { tied: config.tie_word_embeddings ?? true, numNorms: 4 }),
  gemma3_text: (config) =>
    llama(config, { tied: config.tie_word_embeddings ?? true, numNorms: 4, qkNorm: true }),
  phi: (config) => rotaryGpt(config, { numNorms: 1, headBias: true }),
  phi3: llama,
  gpt2: (config) => rotaryGpt(gpt2Sizes(config), { learnedPositions: true, tied: true }),
  gptj: (config) => rotaryGpt(gpt2Sizes(config), { bias: 'feed', numNorms: 1, headBias: true }),
  gpt_neox: (config) => rotaryGpt(config, {}),
  bert: (config) => encoder(config, { segments: config.type_vocab_size ?? 2 }),
  vit,
  t5,
  umt5: t5,
  WanTransformer3DModel: wan,
  WanModel: wan,
};
