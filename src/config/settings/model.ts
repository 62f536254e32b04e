import { z } from 'zod';
import { NAMED_MODELS } from '../named-models';
import type { Planned } from '../setting';

export const size = z.int().min(1);

const decoder = { layers: size, dim: size, heads: size, vocab: size, seq: size };

const tied = z.boolean().default(true);

/** How attention is computed: with the matrix of its weights, or in blocks without it. */
export const attentionSchema = z.enum(['eager', 'flash']);

export type AttentionKind = z.output<typeof attentionSchema>;

const gptAttention = attentionSchema.optional();

export const gptSchema = z.strictObject({
  kind: z.literal('gpt'),
  ...decoder,
  tied,
  ffn: size.optional(),
  attention: gptAttention,
});

/** A GPT whose blocks have experts in place of the one feed-forward layer. */
export const moeSchema = z.strictObject({
  kind: z.literal('moe'),
  ...decoder,
  tied,
  experts: size,
  attention: gptAttention,
});

/** A decoder with RMSNorm, rotary positions, heads in groups and SwiGLU. */
export const llamaSchema = z.strictObject({
  kind: z.literal('llama'),
  ...decoder,
  tied: z.boolean().default(false),
  kvHeads: size.optional(),
  ffn: size.optional(),
  qkvBias: z.boolean().default(false),
  ropeTheta: z.number().min(1).default(10_000),
  normEps: z.number().positive().default(1e-5),
  attention: attentionSchema.default('eager'),
});

/** Wan2.2's video transformer: one expert, or two of which a step runs one, by its timestep. Defaults: Wan2.2's. */
export const ditSchema = z.strictObject({
  kind: z.literal('dit'),
  layers: size,
  dim: size,
  heads: size,
  ffn: size,
  latent: z.tuple([size, size, size]),
  patch: z.tuple([size, size, size]).default([1, 2, 2]),
  inChannels: size.default(16),
  outChannels: size.default(16),
  freqDim: size.default(256),
  textDim: size.default(4096),
  textLen: size.default(512),
  experts: z.union([z.literal(1), z.literal(2)]).default(1),
  boundary: z.number().gt(0).lt(1).default(0.875),
  normEps: z.number().positive().default(1e-6),
  attention: attentionSchema.default('eager'),
});

/** UMT5's encoder: RMSNorm, gated GELU, and a table of relative positions in every layer. */
export const t5Schema = z.strictObject({
  kind: z.literal('t5-encoder'),
  layers: size,
  dim: size,
  attnDim: size.optional(),
  heads: size,
  ffn: size,
  vocab: size,
  seq: size.default(512),
  relativeBuckets: size.default(32),
  relativeDistance: size.default(128),
  normEps: z.number().positive().default(1e-6),
});

/** Kinds of models, each with what it is equal to. */
export const KINDS = {
  gpt: { schema: gptSchema, says: "GPT-2's shape, tanh GELU, learned positions" },
  moe: { schema: moeSchema, says: 'the same with a gate and experts in place of the feed-forward layer' },
  llama: {
    schema: llamaSchema,
    says: "Hugging Face's LlamaForCausalLM, parameters' names too; Qwen2ForCausalLM with qkvBias",
  },
  dit: {
    schema: ditSchema,
    says: "Wan2.2's WanModel, its names too; diffusers' WanTransformer3DModel in values",
  },
  't5-encoder': {
    schema: t5Schema,
    says: "UMT5's encoder; it has no loss, so it is planned or called, not trained",
  },
} as const;

const kindSchema = z.discriminatedUnion('kind', [gptSchema, moeSchema, llamaSchema, ditSchema, t5Schema]);

/** Never empty. */
export const MODEL_NAMES = Object.keys(NAMED_MODELS) as [ModelName, ...ModelName[]];

/** A model by name or by its sizes. */
export const modelSchema = z.union([z.enum(MODEL_NAMES), kindSchema]);

export type ModelName = keyof typeof NAMED_MODELS;
export type ModelConfig = z.output<typeof kindSchema>;
export type ModelSetting = z.output<typeof modelSchema>;
export type LlamaConfig = z.output<typeof llamaSchema>;
export type DitConfig = z.output<typeof ditSchema>;
export type T5Config = z.output<typeof t5Schema>;

/** The model's sizes, whether named or spelled out. */
export function modelShape({ model }: { readonly model: ModelSetting }): ModelConfig {
  return typeof model === 'string' ? kindSchema.parse(NAMED_MODELS[model]) : model;
}

/** Positions of one sample that blocks compute: tokens, or patches of a video. */
export function positionsOf(shape: ModelConfig): number {
  if (shape.kind !== 'dit') return shape.seq;
  return shape.latent.reduce((product, extent, axis) => product * (extent / (shape.patch[axis] ?? 1)), 1);
}

type KeyOf<Shape> = Shape extends unknown ? keyof Shape : never;

interface ModelPart {
  readonly says: string;
  readonly form?: string;
  readonly planned: Planned<unknown>;
}

/** What a model's settings mean, and what a plan makes of them. */
export const MODEL_PARTS: Readonly<Record<KeyOf<ModelConfig>, ModelPart>> = {
  kind: read(
    'one of the kinds above; a plan refuses moe, whose layers it does not know',
    "'gpt', 'moe', 'llama', 'dit' or 't5-encoder'",
  ),
  layers: read('blocks'),
  dim: read('width of the stream that blocks add to'),
  heads: read('heads of attention; they divide dim'),
  kvHeads: read('heads of keys and values; default: heads'),
  attnDim: read('width of all heads together; default: dim'),
  ffn: read(
    'width within the feed-forward layer; default: 4 · dim, of llama two thirds of it up to a multiple of 256',
  ),
  vocab: read('tokens; a run on text needs 256'),
  seq: read('tokens of a sequence'),
  tied: read('the output head is the token table'),
  qkvBias: read('queries, keys and values have a bias (Qwen)'),
  experts: read('experts of a block; of a dit: copies of which a step runs one, by its timestep'),
  attention: read("'flash' computes it in blocks, without the matrix of its weights; default: 'eager'"),
  latent: read('frames, rows and columns of a latent video', 'frames, rows and columns, as [5, 8, 8]'),
  patch: read('of the video, which is a position', 'frames, rows and columns, as [1, 2, 2]'),
  inChannels: read('of the latent video; more than outChannels where an image is given too'),
  outChannels: read('of the latent video'),
  freqDim: read("width of the timestep's embedding"),
  textDim: read("width of the text's embedding"),
  textLen: read('positions of the text'),
  relativeBuckets: read('buckets of relative positions, a bias each'),
  relativeDistance: values('distance from which on all positions share a bucket'),
  ropeTheta: values('base of the rotary frequencies (Su et al. 2021); 500000 in Llama 3'),
  normEps: values('added within norms'),
  boundary: values('from this share of all timesteps on, the high-noise expert runs'),
};

function read(says: string, form?: string): ModelPart {
  return { says, ...(form === undefined ? {} : { form }), planned: { reads: true } };
}

function values(says: string): ModelPart {
  return { says, planned: { ignored: 'the same work, whatever the value' } };
}
