import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { z } from 'zod';
import { parseJson } from '../core/json-text';
import { MOST_CONFIG_BYTES, readRegularFile } from '../core/regular-file';
import { shown } from '../core/shown';

/** A folder in Hugging Face's format, and sizes that its config.json does not determine. */
export interface PretrainedInput {
  /** A folder with config.json and safetensors files. Relative paths begin at the current folder. */
  readonly from: string;
  /** Tokens per sequence; default: the number of the model's positions. */
  readonly seq?: number | undefined;
  readonly attention?: 'eager' | 'flash' | undefined;
  /** Frames, rows and columns of the latent videos of a dit. */
  readonly latent?: readonly [number, number, number] | undefined;
  /** Positions of a dit's text; default: config.json's text_len, or 512, to which diffusers pads a text. */
  readonly textLen?: number | undefined;
}

/** The sizes of a model in a folder, or why the model cannot be built. */
export type FolderModel = { readonly model: Readonly<Record<string, unknown>> } | { readonly wrong: string };

/** Whether a setting `model` names a folder and no kind. A parsed model has a folder and a kind. */
export function isPretrained(value: unknown): value is PretrainedInput {
  return typeof value === 'object' && value !== null && 'from' in value && !('kind' in value);
}

const KEYS = ['from', 'seq', 'attention', 'latent', 'textLen'];

/** Folders of models within a published Wan. Source: diffusers' WanPipeline, Wan2.2's repository. */
const WITHIN = ['transformer', 'transformer_2', 'high_noise_model', 'low_noise_model'];

/** Reads the model's sizes from its folder's config.json. Source: transformers' and diffusers' configurations. */
export function modelOfFolder(given: PretrainedInput): FolderModel {
  const unknown = Object.keys(given).find((key) => !KEYS.includes(key));
  if (unknown !== undefined) {
    return { wrong: `has no key "${unknown}"; choose one of ${KEYS.join(', ')}` };
  }
  if (typeof given.from !== 'string') return { wrong: `from is ${String(given.from)}; give a folder's path` };
  const from = resolve(given.from);
  const file = join(from, 'config.json');
  if (!existsSync(file)) {
    const within = WITHIN.map((name) => join(from, name)).filter((one) =>
      existsSync(join(one, 'config.json')),
    );
    const advice =
      within.length === 0
        ? 'give a folder with config.json and safetensors files, such as a download of a model'
        : `the folder has models in subfolders; give one subfolder per run: ${within.join(' or ')}`;
    return { wrong: `${file} is missing; ${advice}` };
  }
  let config: unknown;
  try {
    config = parseJson(readRegularFile(file, MOST_CONFIG_BYTES));
  } catch (error) {
    return { wrong: `${file} cannot be read: ${error instanceof Error ? error.message : String(error)}` };
  }
  const read = sizesOf(config, given);
  if ('wrong' in read) return { wrong: `${file}: ${read.wrong}` };
  const { attention } = given;
  return { model: { ...read.model, ...(attention === undefined ? {} : { attention }), from } };
}

function sizesOf(config: unknown, given: PretrainedInput): FolderModel {
  const { model_type: type, _class_name: name } = z
    .looseObject({ model_type: z.string().optional(), _class_name: z.string().optional() })
    .catch({})
    .parse(config);
  const video = BY_CLASS.get(name ?? '');
  const isVideo = video !== undefined;
  const useless = (isVideo ? (['seq'] as const) : (['latent', 'textLen'] as const)).find(
    (key) => given[key] !== undefined,
  );
  if (useless !== undefined) {
    return {
      wrong: `${useless} has no meaning for ${isVideo ? 'a model of videos' : 'a language model'}; omit it`,
    };
  }
  if (isVideo && given.latent === undefined) {
    return {
      wrong: 'the file does not say how large videos are; give latent: [frames, rows, columns] too',
    };
  }
  const read = video ?? BY_TYPE.get(type ?? '');
  if (read !== undefined) return read(config, given);
  const known = [...BY_TYPE.keys(), ...[...BY_CLASS.keys()].map((one) => `_class_name ${one}`)].join(', ');
  return { wrong: `model_type is ${shown(name ?? type)}; choose one of ${known}` };
}

type Read = (config: unknown, given: PretrainedInput) => FolderModel;

const size = z.int().min(1);

/** Settings that change what a model computes; a model with another value than the usual one is refused. */
type Usual = Readonly<Record<string, readonly unknown[]>>;

const gpt2Schema = z.looseObject({
  n_layer: size,
  n_embd: size,
  n_head: size,
  n_positions: size,
  vocab_size: size,
  n_inner: size.nullish(),
  tie_word_embeddings: z.boolean().default(true),
});

const GPT2_USUAL: Usual = {
  activation_function: ['gelu_new', 'gelu_pytorch_tanh'],
  layer_norm_epsilon: [1e-5],
  scale_attn_weights: [true],
  scale_attn_by_inverse_layer_idx: [false],
  add_cross_attention: [false],
};

const gpt2: Read = (config, { seq }) =>
  parsed(gpt2Schema, config, GPT2_USUAL, (read) =>
    seq !== undefined && seq !== read.n_positions
      ? `the model has a learned embedding for each of ${read.n_positions} positions, so seq cannot be ${String(seq)}; omit seq`
      : {
          kind: 'gpt',
          layers: read.n_layer,
          dim: read.n_embd,
          heads: read.n_head,
          vocab: read.vocab_size,
          seq: read.n_positions,
          tied: read.tie_word_embeddings,
          ...(read.n_inner == null ? {} : { ffn: read.n_inner }),
        },
  );

const llamaSchema = z.looseObject({
  hidden_size: size,
  intermediate_size: size,
  num_hidden_layers: size,
  num_attention_heads: size,
  num_key_value_heads: size.nullish(),
  vocab_size: size,
  max_position_embeddings: size,
  rms_norm_eps: z.number().positive().default(1e-6),
  rope_theta: z.number().optional(),
  rope_parameters: z.looseObject({ rope_theta: z.number().optional() }).nullish(),
  tie_word_embeddings: z.boolean().default(false),
  head_dim: size.nullish(),
  sliding_window: z.number().nullish(),
});

const LLAMA_USUAL: Usual = {
  hidden_act: ['silu'],
  attention_bias: [false],
  mlp_bias: [false],
  rope_scaling: [null],
  'rope_parameters.rope_type': ['default'],
  use_sliding_window: [false],
};

/** Models with Llama's layers. Source: LlamaConfig, MistralConfig and Qwen2Config of transformers. */
const llamaLike =
  (kind: { readonly qkvBias: boolean; readonly hasWindow: boolean }): Read =>
  (config, given) =>
    parsed(llamaSchema, config, LLAMA_USUAL, (read) => {
      const { hidden_size: dim, num_attention_heads: heads, head_dim: head, sliding_window: window } = read;
      if (head != null && head * heads !== dim) {
        return `head_dim is ${head}, but models here have hidden_size / num_attention_heads = ${dim / heads}`;
      }
      // Qwen2 has sliding_window too, but uses it only with use_sliding_window.
      if (kind.hasWindow && window != null)
        return `sliding_window is ${window}, but attention here sees all tokens`;
      return {
        kind: 'llama',
        layers: read.num_hidden_layers,
        dim,
        heads,
        kvHeads: read.num_key_value_heads ?? heads,
        ffn: read.intermediate_size,
        vocab: read.vocab_size,
        seq: given.seq ?? read.max_position_embeddings,
        tied: read.tie_word_embeddings,
        ropeTheta: read.rope_theta ?? read.rope_parameters?.rope_theta ?? 10_000,
        normEps: read.rms_norm_eps,
        qkvBias: kind.qkvBias,
      };
    });

/** Keys that have the same names in Wan's own config.json and in diffusers' config.json. */
const videoSchema = z.looseObject({
  ffn_dim: size,
  freq_dim: size,
  num_layers: size,
  text_dim: size.default(4096),
  patch_size: z.tuple([size, size, size]).default([1, 2, 2]),
  eps: z.number().positive().default(1e-6),
});

const wanSchema = videoSchema.extend({
  dim: size,
  in_dim: size,
  out_dim: size,
  num_heads: size,
  text_len: size,
});

const WAN_USUAL: Usual = { model_type: ['t2v', 'ti2v', 'i2v'], qk_norm: [true], cross_attn_norm: [true] };

const wan: Read = (config, { latent, textLen }) =>
  parsed(wanSchema, config, WAN_USUAL, (read) => ({
    ...{ dim: read.dim, heads: read.num_heads, inChannels: read.in_dim, outChannels: read.out_dim },
    ...ditOf(read, latent),
    textLen: textLen ?? read.text_len,
  }));

const diffusersSchema = videoSchema.extend({
  num_attention_heads: size,
  attention_head_dim: size,
  in_channels: size,
  out_channels: size.nullable(),
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

const diffusers: Read = (config, { latent, textLen }) =>
  parsed(diffusersSchema, config, DIFFUSERS_USUAL, (read) => {
    const { rope_max_seq_len: most, num_attention_heads: heads, in_channels: inChannels } = read;
    if (latent?.some((extent, i) => extent / (read.patch_size[i] ?? 1) > most)) {
      return `rope_max_seq_len is ${most}, but latent [${latent}] has more patches along one axis; give a smaller video`;
    }
    return {
      className: 'WanTransformer3DModel',
      ...{ dim: heads * read.attention_head_dim, heads, inChannels },
      outChannels: read.out_channels ?? inChannels,
      ...ditOf(read, latent),
      textLen,
    };
  });

function ditOf(read: z.output<typeof videoSchema>, latent: PretrainedInput['latent']): object {
  return {
    kind: 'dit',
    layers: read.num_layers,
    ffn: read.ffn_dim,
    latent,
    patch: read.patch_size,
    freqDim: read.freq_dim,
    textDim: read.text_dim,
    normEps: read.eps,
  };
}

/** Readers of config.json, by `_class_name`. */
const BY_CLASS: ReadonlyMap<string, Read> = new Map([
  ['WanModel', wan],
  ['WanTransformer3DModel', diffusers],
]);

/** Readers of config.json, by `model_type`. */
const BY_TYPE: ReadonlyMap<string, Read> = new Map([
  ['gpt2', gpt2],
  ['llama', llamaLike({ qkvBias: false, hasWindow: false })],
  ['mistral', llamaLike({ qkvBias: false, hasWindow: true })],
  ['qwen2', llamaLike({ qkvBias: true, hasWindow: false })],
]);

/** Reads a config; `model` returns the sizes, or why the model cannot be built. */
function parsed<T extends object>(
  schema: z.ZodType<T>,
  config: unknown,
  usual: Usual,
  model: (read: T) => Readonly<Record<string, unknown>> | string,
): FolderModel {
  const read = schema.safeParse(config);
  if (!read.success) {
    const [issue] = read.error.issues;
    return { wrong: `${issue?.path.join('.')}: ${issue?.message}` };
  }
  const unusual = Object.entries(usual).flatMap(([path, values]) => {
    const value = path.split('.').reduce<unknown>((at, key) => Object(at)[key], config);
    const isUsual = value === undefined || values.includes(value);
    return isUsual ? [] : [`${path} is ${shown(value)}, but models here have ${shown(values[0])}`];
  });
  if (unusual.length > 0) return { wrong: unusual.join('; ') };
  const made = model(read.data);
  return typeof made === 'string' ? { wrong: made } : { model: made };
}
