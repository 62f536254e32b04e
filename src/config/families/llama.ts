import { z } from 'zod';
import { type Family, family, type HubSizes, type Usual } from './family';
import { attentionSchema, decoder, origin, size } from './sizes';

/** A decoder with RMSNorm, rotary position embeddings, grouped-query attention and SwiGLU. */
export const llamaSchema = z.strictObject({
  kind: z.literal('llama'),
  ...origin,
  ...decoder,
  tied: z.boolean().default(false),
  kvHeads: size.optional(),
  ffn: size.optional(),
  qkvBias: z.boolean().default(false),
  ropeTheta: z.number().min(1).default(10_000),
  normEps: z.number().positive().default(1e-5),
  attention: attentionSchema.default('eager'),
});

export type LlamaConfig = z.output<typeof llamaSchema>;

/** Returns a llama's usual ffn: 8/3 · dim, rounded up to a multiple of 256. Source: Touvron et al. 2023; Meta's llama code. */
export function llamaFfn(dim: number): number {
  return 256 * Math.ceil((8 * dim) / 3 / 256);
}

const isSet = z.boolean().nullish();

/** Keys of Llama, and of the many decoders whose configs name their sizes alike. */
export const decoderKeys = z.looseObject({
  num_hidden_layers: size,
  hidden_size: size,
  num_attention_heads: size,
  intermediate_size: size,
  num_key_value_heads: size.nullish(),
  head_dim: size.nullish(),
  vocab_size: size,
  max_position_embeddings: size.nullish(),
  original_max_position_embeddings: size.nullish(),
  rope_scaling: z.looseObject({ original_max_position_embeddings: size.nullish() }).nullish(),
  rope_theta: z.number().nullish(),
  rope_parameters: z.looseObject({ rope_theta: z.number().nullish() }).nullish(),
  rms_norm_eps: z.number().positive().nullish(),
  tie_word_embeddings: isSet,
  sliding_window: size.nullish(),
  attention_bias: isSet,
  bias: isSet,
});

export type DecoderKeys = z.output<typeof decoderKeys>;

/** Returns a decoder's sizes. A model whose rotary frequencies are scaled was first trained with its original positions. */
export function decoderSizes(config: DecoderKeys): HubSizes {
  const { hidden_size: dim, num_attention_heads: heads } = config;
  return {
    kind: 'llama',
    layers: config.num_hidden_layers,
    dim,
    heads,
    kvHeads: config.num_key_value_heads ?? undefined,
    headDim: config.head_dim ?? dim / heads,
    ffn: config.intermediate_size,
    vocab: config.vocab_size,
    seq:
      config.rope_scaling?.original_max_position_embeddings ??
      config.original_max_position_embeddings ??
      config.max_position_embeddings ??
      undefined,
    tied: config.tie_word_embeddings ?? false,
    ropeTheta: config.rope_theta ?? config.rope_parameters?.rope_theta ?? 10_000,
    normEps: config.rms_norm_eps ?? 1e-6,
  };
}

/** Makes a family of decoders with Llama's keys. `more` adds what the layers have beside Llama's. */
export function llamaLike(more: (config: DecoderKeys) => Omit<HubSizes, 'kind'> = () => ({})): Family {
  return family(decoderKeys, (config) => ({ ...decoderSizes(config), ...more(config) }));
}

const USUAL: Usual = {
  hidden_act: ['silu'],
  attention_bias: [false],
  mlp_bias: [false],
  rope_scaling: [null],
  'rope_parameters.rope_type': ['default'],
  use_sliding_window: [false],
};

/** Makes a family whose models runs build, since they have Llama's layers. */
function builtLlama(sizesOf: (config: DecoderKeys) => HubSizes, hasWindow = false): Family {
  return family(decoderKeys, sizesOf, {
    usual: USUAL,
    unlike: (config, { seq }) => {
      const { head_dim: head, hidden_size: dim, num_attention_heads: heads, sliding_window: window } = config;
      if (head != null && head * heads !== dim)
        return `head_dim is ${head}, but models here have hidden_size / num_attention_heads = ${dim / heads}`;
      if (hasWindow && window != null && (seq ?? 0) > window)
        return `sliding_window is ${window}, but attention here sees all tokens; give a seq of at most ${window}`;
      return (seq ?? sizesOf(config).seq) === undefined
        ? 'max_position_embeddings is missing; write it into the config, or give seq'
        : null;
    },
  });
}

/** Returns Mistral's sizes. Attention sees all tokens of a sequence that its window contains. */
function mistralSizes(config: DecoderKeys): HubSizes {
  const { seq, ...sizes } = decoderSizes(config);
  return { ...sizes, seq: seq && Math.min(seq, config.sliding_window ?? seq) };
}

const tiedUnlessSet = ({ tie_word_embeddings: tied }: DecoderKeys) => ({ tied: tied ?? true });
const biasIfSet = ({ bias }: DecoderKeys) => ({ bias: bias === true ? 'attention' : 'none' });

/** ChatGLM's own names for the sizes. */
const chatglmKeys = z.looseObject({
  hidden_size: size,
  num_layers: size,
  num_attention_heads: size,
  multi_query_group_num: size.nullish(),
  ffn_hidden_size: size,
  padded_vocab_size: size,
  seq_length: size.nullish(),
  add_qkv_bias: isSet,
});

/** Keys of Qwen's first version, whose intermediate_size counts the gate and the feed-forward together. */
const qwenKeys = decoderKeys.extend({
  seq_length: size,
  layer_norm_epsilon: z.number().positive().nullish(),
  rotary_emb_base: z.number().nullish(),
});

/**
 * Families by `model_type`. Source: the configuration and modeling files of transformers, and of the models' own repositories
 * (ChatGLM, Baichuan, InternLM, Qwen).
 */
export const LLAMAS: Readonly<Record<string, Family>> = {
  llama: builtLlama((config) => ({
    ...decoderSizes(config),
    bias: config.attention_bias === true ? 'attention' : 'none',
  })),
  mistral: builtLlama(mistralSizes, true),
  // Qwen2 has sliding_window too, but uses it only with use_sliding_window.
  qwen2: builtLlama((config) => ({ ...decoderSizes(config), qkvBias: true })),
  qwen3: llamaLike(() => ({ qkNorm: true })),
  qwen: family(qwenKeys, (config) => ({
    ...decoderSizes(config),
    ffn: config.intermediate_size / 2,
    seq: config.seq_length,
    qkvBias: true,
    ropeTheta: config.rotary_emb_base ?? 10_000,
    normEps: config.layer_norm_epsilon ?? 1e-6,
  })),
  chatglm: family(chatglmKeys, (config) => ({
    kind: 'llama',
    layers: config.num_layers,
    dim: config.hidden_size,
    heads: config.num_attention_heads,
    kvHeads: config.multi_query_group_num ?? undefined,
    ffn: config.ffn_hidden_size,
    vocab: config.padded_vocab_size,
    seq: config.seq_length ?? undefined,
    qkvBias: config.add_qkv_bias ?? false,
  })),
  glm: llamaLike(({ attention_bias: isBiased }) => ({ qkvBias: isBiased ?? false })),
  baichuan: llamaLike(),
  internlm: llamaLike(biasIfSet),
  internlm2: llamaLike(biasIfSet),
  internlm3: llamaLike(),
  gemma: llamaLike(tiedUnlessSet),
  gemma2: llamaLike((config) => ({ ...tiedUnlessSet(config), numNorms: 4 })),
  gemma3_text: llamaLike((config) => ({ ...tiedUnlessSet(config), numNorms: 4, qkNorm: true })),
  phi3: llamaLike(),
};

/** Returns config.json of a llama; with a bias on queries, keys and values, it is a Qwen2. */
export function llamaHubConfig(shape: LlamaConfig) {
  const isQwen = shape.qkvBias;
  return {
    architectures: [isQwen ? 'Qwen2ForCausalLM' : 'LlamaForCausalLM'],
    model_type: isQwen ? 'qwen2' : 'llama',
    hidden_size: shape.dim,
    intermediate_size: shape.ffn ?? llamaFfn(shape.dim),
    num_hidden_layers: shape.layers,
    num_attention_heads: shape.heads,
    num_key_value_heads: shape.kvHeads ?? shape.heads,
    vocab_size: shape.vocab,
    max_position_embeddings: shape.seq,
    hidden_act: 'silu',
    rms_norm_eps: shape.normEps,
    rope_theta: shape.ropeTheta,
    rope_scaling: null,
    tie_word_embeddings: shape.tied,
    bos_token_id: null,
    eos_token_id: null,
    ...(isQwen ? { use_sliding_window: false } : { attention_bias: false, mlp_bias: false }),
  };
}
