import { type Family, family, type HubConfig, type HubSizes, keysWith } from './family';
import { type LlamaConfig, llamaFfn, llamaSchema } from './kinds';
import { type ModelKind, OF_TRANSFORMERS } from './model-kind';

/** The positions of a first training, which models with scaled rotary frequencies have. */
const ORIGINAL = 'original_max_position_embeddings';

/**
 * Keys of Llama, and of the many decoders whose configs name their sizes alike. The original positions come first, because
 * longer ones are rare in training.
 */
export const DECODER = {
  layers: 'num_hidden_layers',
  dim: 'hidden_size',
  heads: 'num_attention_heads',
  ffn: 'intermediate_size',
  vocab: 'vocab_size',
  kvHeads: 'num_key_value_heads?',
  headDim: 'head_dim?',
  tied: 'tie_word_embeddings?',
  seq: `rope_parameters.${ORIGINAL}|rope_scaling.${ORIGINAL}|${ORIGINAL}|max_position_embeddings?`,
  ropeTheta: 'rope_parameters.rope_theta|rope_theta?',
  normEps: 'rms_norm_eps?',
} as const;

/** Returns what the words of a decoder mean: with Llama's default, where the settings have another. */
export function decoderSizes(words: Readonly<Record<string, unknown>>): HubSizes {
  return { kind: 'llama', normEps: 1e-6, ...words };
}

/** Makes a family of decoders with Llama's keys. `more` is what the layers have beside Llama's. */
function decoders(more: Readonly<Record<string, unknown>> = {}): Family {
  return family(DECODER, (words) => decoderSizes({ ...more, ...words }));
}

/** Makes a family whose models runs build, since they have Llama's layers. */
function builtLlama({ qkvBias = false, hasWindow = false }): Family {
  const keys = { ...DECODER, hasBias: 'attention_bias?', window: 'sliding_window?' } as const;
  return family(
    keys,
    ({ hasBias, window, ...words }) => {
      const { seq } = words;
      // Attention sees all tokens of a sequence that its window contains.
      const whole =
        hasWindow && seq !== undefined && window !== undefined ? { seq: Math.min(seq, window) } : {};
      const bias = hasBias === true && !qkvBias ? { bias: 'attention' } : {};
      return decoderSizes({ ...words, ...whole, ...bias, qkvBias });
    },
    {
      usual: {
        hidden_act: ['silu'],
        attention_bias: [false],
        mlp_bias: [false],
        rope_scaling: [null],
        'rope_parameters.rope_type': ['default'],
        use_sliding_window: [false],
      },
      unlike: ({ headDim, dim, heads, window, seq: positions }, { seq }) => {
        if (headDim !== undefined && headDim * heads !== dim)
          return `head_dim is ${headDim}, but models here have hidden_size / num_attention_heads = ${dim / heads}`;
        if (hasWindow && window !== undefined && seq !== undefined && seq > window)
          return `sliding_window is ${window}, but attention here sees all tokens; give a seq of at most ${window}`;
        return (seq ?? positions) === undefined
          ? 'max_position_embeddings is missing; write it into the config, or give seq'
          : null;
      },
    },
  );
}

/** ChatGLM's own names for the sizes. */
const CHATGLM = {
  layers: 'num_layers',
  dim: 'hidden_size',
  heads: 'num_attention_heads',
  ffn: 'ffn_hidden_size',
  vocab: 'padded_vocab_size',
  kvHeads: 'multi_query_group_num?',
  seq: 'seq_length?',
  qkvBias: 'add_qkv_bias?',
} as const;

/** Keys of Qwen's first version, whose intermediate_size counts the gate and the feed-forward together. */
const QWEN = {
  ...DECODER,
  seq: 'seq_length',
  normEps: 'layer_norm_epsilon?',
  ropeTheta: 'rotary_emb_base?',
} as const;

const internlm = family({ ...DECODER, hasBias: 'bias?' } as const, ({ hasBias, ...words }) =>
  decoderSizes({ ...words, bias: hasBias === true ? 'attention' : 'none' }),
);

/**
 * Families by `model_type`. Source: the configuration and modeling files of transformers, and of the models' own repositories
 * (ChatGLM, Baichuan, InternLM, Qwen).
 */
export const LLAMAS: Readonly<Record<string, Family>> = {
  llama: builtLlama({}),
  mistral: builtLlama({ hasWindow: true }),
  // Qwen2 has sliding_window too, but uses it only with use_sliding_window.
  qwen2: builtLlama({ qkvBias: true }),
  qwen3: decoders({ qkNorm: true }),
  qwen: family(QWEN, ({ ffn, ...words }) => decoderSizes({ ...words, ffn: ffn / 2, qkvBias: true })),
  chatglm: family(CHATGLM, decoderSizes),
  glm: family({ ...DECODER, qkvBias: 'attention_bias?' } as const, decoderSizes),
  baichuan: family({ ...DECODER, seq: 'max_position_embeddings|model_max_length?' } as const, decoderSizes),
  internlm,
  internlm2: internlm,
  internlm3: decoders(),
  gemma: decoders({ tied: true }),
  gemma2: decoders({ tied: true, numNorms: 4 }),
  gemma3_text: decoders({ tied: true, numNorms: 4, qkNorm: true }),
  phi3: decoders(),
};

/** Returns config.json of a llama; with a bias on queries, keys and values, it is a Qwen2. */
function configOf(shape: LlamaConfig): HubConfig {
  const { ffn = llamaFfn(shape.dim), kvHeads = shape.heads } = shape;
  const isQwen = shape.qkvBias;
  return {
    architectures: [isQwen ? 'Qwen2ForCausalLM' : 'LlamaForCausalLM'],
    model_type: isQwen ? 'qwen2' : 'llama',
    ...keysWith(DECODER, { ...shape, ffn, kvHeads }),
    ...{ hidden_act: 'silu', rope_scaling: null, bos_token_id: null, eos_token_id: null },
    ...(isQwen ? { use_sliding_window: false } : { attention_bias: false, mlp_bias: false }),
  };
}

export const LLAMA_KIND: ModelKind<LlamaConfig> = {
  schema: llamaSchema,
  says: "Hugging Face's LlamaForCausalLM, with the same parameter names; with qkvBias it is Qwen2ForCausalLM",
  differs: 'also has kvHeads and ffn',
  small: "{ kind: 'llama', layers: 2, dim: 64, heads: 4, kvHeads: 2, vocab: 512, seq: 64 }",
  smallLike: (sizes, { qkvBias }) => ({ kind: 'llama', ...sizes, qkvBias }),
  trainsOn: 'tokens',
  takesInstructions: true,
  isCausal: true,
  isRotary: true,
  embeddings: ['embed_tokens'],
  published: { ...OF_TRANSFORMERS, configOf },
};
