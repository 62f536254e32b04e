import { z } from 'zod';
import { family, type HubSizes, type Usual } from './family';
import { attentionSchema, layers, origin, size } from './sizes';

const patch = z.tuple([size, size, size]).default([1, 2, 2]);

/**
 * Wan2.2's video transformer, with one expert or two. If there are two, the timestep chooses one per step. The
 * defaults are Wan2.2's.
 */
export const ditSchema = z.strictObject({
  kind: z.literal('dit'),
  ...origin,
  className: z.enum(['WanModel', 'WanTransformer3DModel']).optional(),
  layers,
  dim: size,
  heads: size,
  ffn: size,
  latent: z.tuple([size, size, size]),
  patch,
  inChannels: size.default(16),
  outChannels: size.default(16),
  freqDim: size.default(256),
  textDim: size.default(4096),
  textLen: size.default(512),
  experts: z.union([z.literal(1), z.literal(2)]).default(1),
  boundary: z.number().gt(0).lt(1).default(0.875),
  normEps: z.number().positive().default(1e-6),
  attention: attentionSchema.default('eager'),
  audioLayers: z.array(z.int().min(0)).default([]),
  audioDim: size.default(1024),
  audioTokens: size.default(4),
});

export type DitConfig = z.output<typeof ditSchema>;

/** Keys that have the same names in Wan's own config.json and in that of diffusers. */
const videoKeys = z.looseObject({
  num_layers: size,
  ffn_dim: size,
  freq_dim: size.default(256),
  text_dim: size.default(4096),
  patch_size: patch,
  eps: z.number().positive().default(1e-6),
  /** Width of the image's tokens that each block of Wan2.1's image-to-video models also reads; diffusers' name. */
  image_dim: size.nullish(),
});

function videoSizes(config: z.output<typeof videoKeys>) {
  return {
    kind: 'dit',
    layers: config.num_layers,
    ffn: config.ffn_dim,
    patch: config.patch_size,
    freqDim: config.freq_dim,
    textDim: config.text_dim,
    normEps: config.eps,
    imageDim: config.image_dim ?? undefined,
  } as const;
}

/** Keys of Wan's own code; the audio's keys are those of Wan2.2's speech-to-video model. */
const wanKeys = videoKeys.extend({
  dim: size,
  in_dim: size,
  out_dim: size,
  num_heads: size,
  text_len: size.default(512),
  audio_inject_layers: z.array(z.int().min(0)).optional(),
  audio_dim: size.optional(),
});

function wanSizes(config: z.output<typeof wanKeys>): HubSizes {
  return {
    ...videoSizes(config),
    dim: config.dim,
    heads: config.num_heads,
    inChannels: config.in_dim,
    outChannels: config.out_dim,
    textLen: config.text_len,
    audioLayers: config.audio_inject_layers,
    audioDim: config.audio_dim,
  };
}

/** Wan's own code. A config of Wan2.1's i2v equals one of Wan2.2's, which has no tokens of an image: both are read as Wan2.2's. */
const WAN_USUAL: Usual = {
  model_type: ['t2v', 'ti2v', 'i2v'],
  qk_norm: [true],
  cross_attn_norm: [true],
  image_dim: [null],
};

const diffusersKeys = videoKeys.extend({
  num_attention_heads: size,
  attention_head_dim: size,
  in_channels: size,
  out_channels: size.nullish(),
  rope_max_seq_len: size.default(1024),
});

/** The last three keys have values in models with an input for images beside the text, such as Wan2.1's i2v. */
const DIFFUSERS_USUAL: Usual = {
  qk_norm: ['rms_norm_across_heads'],
  cross_attn_norm: [true],
  image_dim: [null],
  added_kv_proj_dim: [null],
  pos_embed_seq_len: [null],
};

/** Families by `_class_name`. Source: the configurations of Wan's repositories, and diffusers' WanTransformer3DModel. */
export const WANS = {
  WanModel: family(wanKeys, wanSizes, { usual: WAN_USUAL }),
  WanModel_S2V: family(wanKeys, wanSizes),
  WanTransformer3DModel: family(
    diffusersKeys,
    (config) => ({
      ...videoSizes(config),
      className: 'WanTransformer3DModel',
      dim: config.num_attention_heads * config.attention_head_dim,
      heads: config.num_attention_heads,
      inChannels: config.in_channels,
      outChannels: config.out_channels ?? config.in_channels,
    }),
    {
      usual: DIFFUSERS_USUAL,
      unlike: ({ rope_max_seq_len: most, patch_size: parts }, { latent }) =>
        latent?.some((extent, axis) => extent / (parts[axis] ?? 1) > most)
          ? `rope_max_seq_len is ${most}, but latent [${latent}] has more patches along one axis; give a smaller video`
          : null,
    },
  ),
};

/** Returns config.json of a dit with one expert, for the program whose class it names. */
export function ditHubConfig(shape: DitConfig) {
  const same = {
    num_layers: shape.layers,
    ffn_dim: shape.ffn,
    freq_dim: shape.freqDim,
    text_dim: shape.textDim,
    patch_size: shape.patch,
    eps: shape.normEps,
    cross_attn_norm: true,
  };
  if (shape.className === 'WanTransformer3DModel') {
    return {
      _class_name: 'WanTransformer3DModel',
      ...same,
      num_attention_heads: shape.heads,
      attention_head_dim: shape.dim / shape.heads,
      in_channels: shape.inChannels,
      out_channels: shape.outChannels,
      qk_norm: 'rms_norm_across_heads',
    };
  }
  return {
    _class_name: 'WanModel',
    model_type: shape.inChannels > shape.outChannels ? 'i2v' : 't2v',
    ...same,
    dim: shape.dim,
    num_heads: shape.heads,
    in_dim: shape.inChannels,
    out_dim: shape.outChannels,
    text_len: shape.textLen,
    qk_norm: true,
  };
}

/**
 * Parts of a dit's parameter names: first in Wan's own code and in this library, then in diffusers' WanTransformer3DModel.
 * Wan's norm2 has no parameters.
 */
const DIFFUSERS_PARTS = [
  [/^(text|time)_embedding\.0\./, 'condition_embedder.$1_embedder.linear_1.'],
  [/^(text|time)_embedding\.2\./, 'condition_embedder.$1_embedder.linear_2.'],
  [/^time_projection\.1\./, 'condition_embedder.time_proj.'],
  [/^head\.head\./, 'proj_out.'],
  [/^head\.modulation$/, 'scale_shift_table'],
  [/\.modulation$/, '.scale_shift_table'],
  [/\.ffn\.0\./, '.ffn.net.0.proj.'],
  [/\.ffn\.2\./, '.ffn.net.2.'],
  [/\.norm3\./, '.norm2.'],
  [/\.self_attn\./, '.attn1.'],
  [/\.cross_attn\./, '.attn2.'],
  [/(\.attn\d\.)([qkv])\./, '$1to_$2.'],
  [/(\.attn\d\.)o\./, '$1to_out.0.'],
] as const;

/** Returns the name of a dit's parameter in diffusers' WanTransformer3DModel. Source: convert_wan_to_diffusers.py. */
export function diffusersName(name: string): string {
  return DIFFUSERS_PARTS.reduce((one, [part, theirs]) => one.replace(part, theirs), name);
}
