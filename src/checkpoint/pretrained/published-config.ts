import type { ModelConfig } from '../../config/settings/model';
import { llamaFfn } from '../../config/settings/model';
import { ConfigError } from '../../core/errors';

/**
 * The form in which transformers or diffusers publish a model: the content of config.json, and the first word of the names of
 * files.
 */
export interface PublishedModel {
  readonly config: Readonly<Record<string, unknown>>;
  readonly prefix: 'model' | 'diffusion_pytorch_model';
}

/** Returns the form in which a model is published. Throws: CONFIG for kinds that transformers and diffusers do not have. */
export function publishedModel(shape: ModelConfig): PublishedModel {
  switch (shape.kind) {
    case 'gpt':
      return {
        prefix: 'model',
        config: {
          architectures: ['GPT2LMHeadModel'],
          model_type: 'gpt2',
          n_layer: shape.layers,
          n_embd: shape.dim,
          n_head: shape.heads,
          n_positions: shape.seq,
          n_inner: shape.ffn ?? null,
          vocab_size: shape.vocab,
          activation_function: 'gelu_new',
          layer_norm_epsilon: 1e-5,
          tie_word_embeddings: shape.tied,
          ...GPT2_REST,
        },
      };
    case 'llama':
      return { prefix: 'model', config: llamaConfig(shape) };
    case 'dit':
      if (shape.experts === 1) {
        const config =
          shape.className === 'WanTransformer3DModel' ? diffusersConfig(shape) : wanConfig(shape);
        return { prefix: 'diffusion_pytorch_model', config };
      }
      throw new ConfigError(
        'a dit with two experts is published as two folders, one per expert; save it with run.save',
      );
    default:
      throw new ConfigError(
        `transformers has no model that equals this library's '${shape.kind}'; save the model with run.save(folder, { type: 'FULL_STATE_DICT' })`,
      );
  }
}

/** Without these values, transformers would assume GPT-2's own tokens and dropout. */
const GPT2_REST = {
  bos_token_id: null,
  eos_token_id: null,
  attn_pdrop: 0,
  embd_pdrop: 0,
  resid_pdrop: 0,
} as const;

function llamaConfig(shape: ModelConfig & { kind: 'llama' }): PublishedModel['config'] {
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

function wanConfig(shape: ModelConfig & { kind: 'dit' }): PublishedModel['config'] {
  return {
    _class_name: 'WanModel',
    model_type: shape.inChannels > shape.outChannels ? 'i2v' : 't2v',
    num_layers: shape.layers,
    dim: shape.dim,
    num_heads: shape.heads,
    ffn_dim: shape.ffn,
    freq_dim: shape.freqDim,
    in_dim: shape.inChannels,
    out_dim: shape.outChannels,
    patch_size: shape.patch,
    text_dim: shape.textDim,
    text_len: shape.textLen,
    eps: shape.normEps,
    qk_norm: true,
    cross_attn_norm: true,
  };
}

function diffusersConfig(shape: ModelConfig & { kind: 'dit' }): PublishedModel['config'] {
  return {
    _class_name: 'WanTransformer3DModel',
    num_layers: shape.layers,
    num_attention_heads: shape.heads,
    attention_head_dim: shape.dim / shape.heads,
    ffn_dim: shape.ffn,
    freq_dim: shape.freqDim,
    in_channels: shape.inChannels,
    out_channels: shape.outChannels,
    patch_size: shape.patch,
    text_dim: shape.textDim,
    eps: shape.normEps,
    qk_norm: 'rms_norm_across_heads',
    cross_attn_norm: true,
  };
}
