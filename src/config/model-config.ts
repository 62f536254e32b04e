import { z } from 'zod';

/** The sizes that have a name. Source: tiny is the notebooks' default, bench the shape of the torch benchmark. */
export const MODEL_SHAPES = {
  tiny: { kind: 'gpt', layers: 4, dim: 128, heads: 4, vocab: 2048, seq: 64, tied: true },
  bench: { kind: 'gpt', layers: 4, dim: 256, heads: 8, vocab: 8192, seq: 128, tied: true },
} as const;

export const size = z.int().min(1);

const shape = {
  layers: size,
  dim: size,
  heads: size,
  vocab: size,
  seq: size,
  /** Whether the output head is the token table. */
  tied: z.boolean().default(true),
};

export const gptSchema = z.strictObject({ kind: z.literal('gpt'), ...shape });

/** A GPT whose blocks have experts in place of the one feed-forward layer. */
export const moeSchema = z.strictObject({
  kind: z.literal('moe'),
  ...shape,
  experts: size,
});

/** A model by name or by its sizes. */
export const modelSchema = z.union([
  z.enum(['tiny', 'bench']),
  z.discriminatedUnion('kind', [gptSchema, moeSchema]),
]);

export type ModelConfig = z.output<typeof gptSchema> | z.output<typeof moeSchema>;

/** The model's sizes, whether named or spelled out. */
export function modelShape({ model }: { readonly model: z.output<typeof modelSchema> }): ModelConfig {
  return typeof model === 'string' ? MODEL_SHAPES[model] : model;
}
