import { z } from 'zod';
import { modelNamed } from '../model-names';
import { ROUTERS } from '../router-options';

/** A size of tensors or groups of ranks; tensors have no larger extents. */
export const size = z
  .int()
  .min(1)
  .max(2 ** 31 - 1);

/** Numbers over which code loops, so that a mistyped number does not take minutes. No published model has more. */
export const MOST_LAYERS = 1024;
export const MOST_EXPERTS = 4096;

const layers = z.int().min(1).max(MOST_LAYERS);

/** The sizes that every decoder has. */
const decoder = { layers, dim: size, heads: size, vocab: size, seq: size };

/** The known model whose sizes the other keys change. */
const like = z
  .string()
  .refine((name) => modelNamed(name) !== null, { error: 'expected the name of a model' })
  .optional();

/** Where the sizes come from. `from` is the folder from which the model was read: its weights are the initial values. */
const origin = { from: z.string().optional(), like };

/** How attention is computed: 'eager' stores the matrix of attention weights, 'flash' works in blocks without it. */
export const attentionSchema = z.enum(['eager', 'flash']);

export type AttentionKind = z.output<typeof attentionSchema>;

const tied = z.boolean().default(true);

const gptAttention = attentionSchema.optional();

export const gptSchema = z.strictObject({
  kind: z.literal('gpt'),
  ...origin,
  ...decoder,
  tied,
  ffn: size.optional(),
  attention: gptAttention,
});

/** A GPT whose blocks have experts in place of the feed-forward layer. */
export const moeSchema = z.strictObject({
  kind: z.literal('moe'),
  ...decoder,
  tied,
  experts: z.int().min(1).max(MOST_EXPERTS),
  attention: gptAttention,
  router: z.enum(ROUTERS).default('temperature'),
  topK: size.optional(),
  capacityFactor: z.number().positive().nullable().optional(),
  auxLossWeight: z.number().min(0).default(0),
  biasUpdateRate: z.number().min(0).default(0),
});

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
  audioLayers: z.array(z.int().min(0)).default([]),
  audioDim: size.default(1024),
  audioTokens: size.default(4),
});

export type DitConfig = z.output<typeof ditSchema>;

/** UMT5's encoder: RMSNorm, gated GELU, and biases of relative positions in every layer. */
export const t5Schema = z.strictObject({
  kind: z.literal('t5-encoder'),
  like,
  layers,
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

export type T5Config = z.output<typeof t5Schema>;

export type GptConfig = z.output<typeof gptSchema>;

export type MoeConfig = z.output<typeof moeSchema>;

/** The schemas of all kinds; a new kind is a row here and in `MODEL_KINDS`. See [Note: kinds of models]. */
export const KIND_SCHEMAS = [gptSchema, moeSchema, llamaSchema, ditSchema, t5Schema] as const;

type KindSchema = (typeof KIND_SCHEMAS)[number];

/** The sizes of a model of this library. */
export type BuiltInModel = z.output<KindSchema>;

/** The sizes of a model of this library, without those that have defaults. */
export type BuiltInInput = z.input<KindSchema>;
