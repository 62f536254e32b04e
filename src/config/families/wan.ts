import { ConfigError } from '../../core';
import type { ConfigIssue } from '../setting';
import { type Family, family, type HubConfig, type HubSizes, keysWith, renamed, type Words } from './family';
import { type DitConfig, ditSchema } from './kinds';
import { type ModelKind, wrongSize } from './model-kind';

/** Keys that have the same names in Wan's own config.json and in that of diffusers. */
const VIDEO = {
  layers: 'num_layers',
  ffn: 'ffn_dim',
  freqDim: 'freq_dim?',
  textDim: 'text_dim?',
  patch: 'patch_size?',
  normEps: 'eps?',
  /** Width of the image's tokens that each block of Wan2.1's image-to-video models also reads; diffusers' name. */
  imageDim: 'image_dim?',
} as const;

/** Keys of Wan's own code; the audio's keys are those of Wan2.2's speech-to-video model. */
const WAN = {
  ...VIDEO,
  dim: 'dim',
  heads: 'num_heads',
  inChannels: 'in_dim',
  outChannels: 'out_dim',
  textLen: 'text_len?',
  audioLayers: 'audio_inject_layers?',
  audioDim: 'audio_dim?',
  task: 'model_type?',
  writer: '_diffusers_version?',
} as const;

const DIFFUSERS = {
  ...VIDEO,
  heads: 'num_attention_heads',
  headDim: 'attention_head_dim',
  inChannels: 'in_channels',
  outChannels: 'out_channels?',
  most: 'rope_max_seq_len?',
} as const;

/** The width of the image's tokens in Wan2.1's image-to-video models. Source: Wan2.1's MLPProj(1280, dim). */
const IMAGE_DIM = 1280;

/**
 * Whether a config is one of Wan2.1's image-to-video models, whose blocks also read tokens of an image. Such a config has the same
 * sizes as one of Wan2.2, and only the release of diffusers that wrote it differs: 0.30.0, and 0.33.0 for Wan2.2.
 */
function readsImage({ task, writer = '' }: Words<typeof WAN>): boolean {
  return task === 'i2v' && writer.startsWith('0.30.');
}

function wanSizes(words: Words<typeof WAN>): HubSizes {
  const { task: _, writer: __, ...sizes } = words;
  return { kind: 'dit', ...(readsImage(words) && { imageDim: IMAGE_DIM }), ...sizes };
}

/** Families by `_class_name`. Source: the configurations of Wan's repositories, and diffusers' WanTransformer3DModel. */
export const WANS: Readonly<Record<string, Family>> = {
  WanModel: family(WAN, wanSizes, {
    usual: {
      model_type: ['t2v', 'ti2v', 'i2v'],
      qk_norm: [true],
      cross_attn_norm: [true],
      image_dim: [null],
    },
    unlike: (words) =>
      readsImage(words)
        ? "model_type is i2v of Wan2.1 (_diffusers_version 0.30), whose blocks also read an image's tokens; models here have those of Wan2.2"
        : null,
  }),
  WanModel_S2V: family(WAN, wanSizes),
  WanTransformer3DModel: family(
    DIFFUSERS,
    ({ heads, headDim, inChannels, most: _, ...words }) => ({
      ...{ kind: 'dit', className: 'WanTransformer3DModel' },
      ...{ dim: heads * headDim, heads, inChannels, outChannels: inChannels, ...words },
    }),
    {
      // The last three keys have values in models with an input for images beside the text, such as Wan2.1's i2v.
      usual: {
        qk_norm: ['rms_norm_across_heads'],
        cross_attn_norm: [true],
        image_dim: [null],
        added_kv_proj_dim: [null],
        pos_embed_seq_len: [null],
      },
      unlike: ({ most = 1024, patch = [1, 2, 2] }, { latent }) =>
        latent?.some((extent, axis) => extent / (patch[axis] ?? 1) > most)
          ? `rope_max_seq_len is ${most}, but latent [${latent}] has more patches along one axis; give a smaller video`
          : null,
    },
  ),
};

/** Returns config.json of a dit with one expert, for the program whose class it names. */
function configOf({ audioLayers: _, audioDim: __, ...shape }: DitConfig): HubConfig {
  if (shape.experts > 1)
    throw new ConfigError(
      'a dit with two experts is published as two folders, one per expert; save it with run.save',
    );
  if (shape.className === 'WanTransformer3DModel') {
    return {
      _class_name: 'WanTransformer3DModel',
      ...keysWith(DIFFUSERS, { ...shape, headDim: shape.dim / shape.heads }),
      ...{ qk_norm: 'rms_norm_across_heads', cross_attn_norm: true },
    };
  }
  return {
    ...{ _class_name: 'WanModel', model_type: shape.inChannels > shape.outChannels ? 'i2v' : 't2v' },
    ...keysWith(WAN, shape),
    ...{ qk_norm: true, cross_attn_norm: true },
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
function diffusersName(own: string): string {
  return renamed(own, DIFFUSERS_PARTS);
}

function isOfDiffusers({ className }: DitConfig): boolean {
  return className === 'WanTransformer3DModel';
}

export const DIT_KIND: ModelKind<DitConfig> = {
  schema: ditSchema,
  says: "Wan2.2's WanModel, with the same parameter names; diffusers' WanTransformer3DModel computes the same values",
  differs: 'has ffn and latent in place of vocab and seq',
  small:
    "{ kind: 'dit', layers: 2, dim: 64, heads: 4, ffn: 256, latent: [2, 8, 8], textDim: 32, textLen: 16, experts: 2 }",
  // Inputs besides the text remain: an image as 48 channels with a mask of 4, and audio in the first block.
  smallLike: ({ vocab: _, seq: __, ...sizes }, { experts, inChannels, outChannels, audioLayers }) => ({
    ...{ kind: 'dit', ...sizes, latent: [4, 4, 4], patch: [1, 1, 1] },
    ...{ inChannels: inChannels > outChannels ? 100 : 48, outChannels: 48, freqDim: 32, textDim: 32 },
    ...{ textLen: 8, ffn: 128, experts, boundary: 0.5 },
    ...(audioLayers.length > 0 && { audioLayers: [0], audioDim: 16 }),
  }),
  trainsOn: 'videos',
  isCausal: false,
  isRotary: true,
  wholeExperts: {
    ep: 'the experts of a dit are chosen by timestep, not by token, and in a step, all ranks train the same expert; leave ep out',
    wrap: "a dit's experts are units in any case",
  },
  embeddings: [],
  conflictsOf,
  stageConflict: () =>
    "its layers also read the timestep and the text; use a 'gpt' or 'llama', or a model of your own that is a chain",
  published: {
    prefix: 'diffusion_pytorch_model',
    readerOf: (shape) => (isOfDiffusers(shape) ? 'diffusers' : "Wan's code"),
    configOf,
    nameOf: (shape, own) => (isOfDiffusers(shape) ? diffusersName(own) : own),
    namesOf: (own) => [own, diffusersName(own)],
  },
};

/** Finds the first of a grid's or channels' sizes that contradicts others. */
function conflictsOf(shape: DitConfig): readonly ConfigIssue[] {
  const { latent, patch, inChannels, outChannels, freqDim, audioLayers, layers } = shape;
  const beyond = audioLayers.find((index) => index >= layers);
  const axis = latent.findIndex((extent, i) => extent % (patch[i] ?? 1) !== 0);
  const rules: readonly (readonly [boolean, keyof DitConfig, string])[] = [
    [
      beyond !== undefined,
      'audioLayers',
      `there is no block ${beyond}: the blocks are 0 to ${layers - 1}; give other indices, or more layers`,
    ],
    [
      axis >= 0,
      'latent',
      `[${latent}] is not divisible by patch [${patch}] (${latent[axis]} by ${patch[axis]}); change one of them`,
    ],
    [
      inChannels < outChannels,
      'inChannels',
      `${inChannels} is less than outChannels ${outChannels}: the input includes the noised video; give at least ${outChannels}`,
    ],
    [
      freqDim % 2 !== 0,
      'freqDim',
      `${freqDim} is odd, but one half of the embedding is cosines, the other half sines; give an even number`,
    ],
  ];
  return rules.flatMap(([isWrong, key, message]) => (isWrong ? [wrongSize(key, message)] : [])).slice(0, 1);
}
