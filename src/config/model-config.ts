import { z } from 'zod';
import { NAMED_MODELS } from './named-models';

export const size = z.int().min(1);

const decoder = { layers: size, dim: size, heads: size, vocab: size, seq: size };

/** Whether the output head is the token table. */
const tied = z.boolean().default(true);

/** How attention is computed: with the matrix of its weights, or in blocks without it. */
export const attentionSchema = z.enum(['eager', 'flash']);

export type AttentionKind = z.output<typeof attentionSchema>;

/** Default 'eager'. */
const gptAttention = attentionSchema.optional();

export const gptSchema = z.strictObject({
  kind: z.literal('gpt'),
  ...decoder,
  tied,
  /** Width between the two matrices of the feed-forward layer. Default 4 · dim. */
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
  /** Heads of keys and values. Default: heads. */
  kvHeads: size.optional(),
  /** Width between the matrices of SwiGLU. Default: two thirds of 4 · dim, up to a multiple of 256. */
  ffn: size.optional(),
  /** Whether queries, keys and values have a bias (Qwen). */
  qkvBias: z.boolean().default(false),
  /** Base of the rotary frequencies. Source: Su et al. 2021; 500000 in Llama 3. */
  ropeTheta: z.number().min(1).default(10_000),
  /** Of RMSNorm. Source: Llama 2 and 3. */
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
  /** Frames, rows and columns of a latent video. */
  latent: z.tuple([size, size, size]),
  patch: z.tuple([size, size, size]).default([1, 2, 2]),
  inChannels: size.default(16),
  outChannels: size.default(16),
  freqDim: size.default(256),
  textDim: size.default(4096),
  textLen: size.default(512),
  experts: z.union([z.literal(1), z.literal(2)]).default(1),
  /** From this share of all timesteps on, the high-noise expert runs. */
  boundary: z.number().gt(0).lt(1).default(0.875),
  /** Of all norms. */
  normEps: z.number().positive().default(1e-6),
  attention: attentionSchema.default('eager'),
});

/** UMT5's encoder: RMSNorm, gated GELU, and a table of relative positions in every layer. */
export const t5Schema = z.strictObject({
  kind: z.literal('t5-encoder'),
  layers: size,
  dim: size,
  /** Width of all heads together. Default: dim. */
  attnDim: size.optional(),
  heads: size,
  ffn: size,
  vocab: size,
  seq: size.default(512),
  relativeBuckets: size.default(32),
  /** Distance from which on all positions share a bucket. */
  relativeDistance: size.default(128),
  normEps: z.number().positive().default(1e-6),
});

const KINDS = [gptSchema, moeSchema, llamaSchema, ditSchema, t5Schema] as const;

const kindSchema = z.discriminatedUnion('kind', KINDS);

/** Never empty. */
export const MODEL_NAMES = Object.keys(NAMED_MODELS) as [ModelName, ...ModelName[]];

/** A model by name or by its sizes. */
export const modelSchema = z.union([z.enum(MODEL_NAMES), kindSchema]);

/** What settings a model may have, of whatever kind. */
export const MODEL_KEYS: readonly string[] = [...new Set(KINDS.flatMap(({ shape }) => Object.keys(shape)))];

export type ModelName = keyof typeof NAMED_MODELS;
export type ModelConfig = z.output<typeof kindSchema>;
export type GptConfig = z.output<typeof gptSchema>;
export type MoeConfig = z.output<typeof moeSchema>;
export type LlamaConfig = z.output<typeof llamaSchema>;
export type DitConfig = z.output<typeof ditSchema>;
export type T5Config = z.output<typeof t5Schema>;

/** The model's sizes, whether named or spelled out. */
export function modelShape({ model }: { readonly model: z.output<typeof modelSchema> }): ModelConfig {
  return typeof model === 'string' ? kindSchema.parse(NAMED_MODELS[model]) : model;
}

/** Positions of one sample that blocks compute: tokens, or patches of a video. */
export function positionsOf(shape: ModelConfig): number {
  if (shape.kind !== 'dit') return shape.seq;
  return shape.latent.reduce((product, extent, axis) => product * (extent / (shape.patch[axis] ?? 1)), 1);
}
