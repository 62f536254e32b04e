import { routerIssues, sequenceConflict, stageConflict } from '../router-options';
import { type Family, family, type HubConfig, keysWith, renamed } from './family';
import { type GptConfig, gptSchema, type MoeConfig, moeSchema } from './kinds';
import { DECODER } from './llama';
import { type ModelKind, OF_TRANSFORMERS, wrongSize } from './model-kind';

/** Keys of GPT-2 and GPT-J. */
const KEYS = {
  layers: 'n_layer',
  dim: 'n_embd',
  heads: 'n_head',
  vocab: 'vocab_size',
  seq: 'n_positions',
  ffn: 'n_inner?',
  tied: 'tie_word_embeddings?',
} as const;

/** The values of a GPT-2 here. */
const COMPUTES = { activation_function: 'gelu_new', layer_norm_epsilon: 1e-5 } as const;

/** GPTs with rotary positions: their layers have LayerNorm, biases and an ungated feed-forward. */
const ROTARY = { kind: 'gpt', gatedFfn: false, learnedPositions: false } as const;

/** Families by `model_type`. Source: the configuration and modeling files of transformers. */
export const GPTS: Readonly<Record<string, Family>> = {
  gpt2: family(KEYS, (words) => ({ kind: 'gpt', ...words }), {
    usual: {
      activation_function: [COMPUTES.activation_function, 'gelu_pytorch_tanh'],
      layer_norm_epsilon: [COMPUTES.layer_norm_epsilon],
      scale_attn_weights: [true],
      scale_attn_by_inverse_layer_idx: [false],
      add_cross_attention: [false],
    },
    unlike: ({ seq: positions }, { seq = positions }) =>
      seq === positions
        ? null
        : `the model has a learned embedding for each of ${positions} positions, so seq cannot be ${seq}; omit seq`,
  }),
  gptj: family(KEYS, (words) => ({
    ...{ ...ROTARY, bias: 'feed', numNorms: 1, headBias: true },
    ...{ tied: false, ...words },
  })),
  gpt_neox: family(DECODER, (words) => ({ tied: false, ...words, ...ROTARY })),
  phi: family(DECODER, (words) => ({ tied: false, ...words, ...ROTARY, numNorms: 1, headBias: true })),
};

/** Returns config.json of a GPT. Without the last values, transformers would assume GPT-2's own tokens and dropout. */
function configOf(shape: GptConfig): HubConfig {
  return {
    ...{ architectures: ['GPT2LMHeadModel'], model_type: 'gpt2', ...COMPUTES },
    ...{ n_inner: null, ...keysWith(KEYS, shape) },
    ...{ bos_token_id: null, eos_token_id: null, attn_pdrop: 0, embd_pdrop: 0, resid_pdrop: 0 },
  };
}

/** Parts of a GPT's parameter names: first in this library, then in Hugging Face's GPT2LMHeadModel. */
const PARTS = [
  [/^blocks\.(\d+)\.ln([12])\./, 'h.$1.ln_$2.'],
  [/^blocks\.(\d+)\.qkv\./, 'h.$1.attn.c_attn.'],
  [/^blocks\.(\d+)\.proj\./, 'h.$1.attn.c_proj.'],
  [/^blocks\.(\d+)\.fc1\./, 'h.$1.mlp.c_fc.'],
  [/^blocks\.(\d+)\.fc2\./, 'h.$1.mlp.c_proj.'],
] as const;

/** The prefix of all names of GPT2LMHeadModel except the head's; files of GPT2Model do not have this prefix. */
const PREFIX = 'transformer.';

/** Returns the name of a GPT's parameter in GPT2LMHeadModel. */
function nameOf(own: string): string {
  return own.startsWith('lm_head.') ? own : `${PREFIX}${renamed(own, PARTS)}`;
}

export const GPT_KIND: ModelKind<GptConfig> = {
  schema: gptSchema,
  says: "GPT-2's shape, tanh GELU, learned positions",
  small: "'tiny'",
  trainsOn: 'tokens',
  takesInstructions: true,
  isCausal: true,
  learnsPositions: true,
  embeddings: ['wte', 'wpe'],
  published: {
    ...OF_TRANSFORMERS,
    transposed: /\.(qkv|proj|fc1|fc2)\.weight$/,
    configOf,
    nameOf: (_, own) => nameOf(own),
    namesOf: (own) => [nameOf(own), nameOf(own).replace(PREFIX, ''), own],
  },
};

/** A GPT with a router and experts in each layer; transformers has no such model. */
export const MOE_KIND: ModelKind<MoeConfig> = {
  schema: moeSchema,
  says: 'a gpt with a gate and experts in place of the feed-forward layer',
  differs: 'also has experts',
  small: "{ kind: 'moe', layers: 2, dim: 64, heads: 4, vocab: 512, seq: 64, experts: 4 }",
  trainsOn: 'tokens',
  isCausal: true,
  learnsPositions: true,
  hasRouter: true,
  notPlanned:
    "plans have no formula for this library's mixture of experts; plan a gpt of the same sizes, or give { params }",
  embeddings: ['wte', 'wpe'],
  conflictsOf: (shape) =>
    routerIssues(shape, shape.experts).map(({ option, message }) => wrongSize(option, message)),
  stageConflict: (shape) => stageConflict(shape, shape.experts),
  sequenceConflict: (shape) => sequenceConflict(shape, shape.experts),
};
