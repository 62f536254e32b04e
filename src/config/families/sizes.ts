import { z } from 'zod';
import { modelNamed } from '../model-names';

/** A size of tensors or groups of ranks; tensors have no larger extents. */
export const size = z
  .int()
  .min(1)
  .max(2 ** 31 - 1);

/** Numbers over which code loops, so that a mistyped number does not take minutes. No published model has more. */
export const MOST_LAYERS = 1024;
export const MOST_EXPERTS = 4096;

export const layers = z.int().min(1).max(MOST_LAYERS);

/** The sizes that every decoder has. */
export const decoder = { layers, dim: size, heads: size, vocab: size, seq: size };

/** The known model whose sizes the other keys change. */
const like = z
  .string()
  .refine((name) => modelNamed(name) !== null, { error: 'expected the name of a model' })
  .optional();

/** Where the sizes come from. `from` is the folder from which the model was read: its weights are the initial values. */
export const origin = { from: z.string().optional(), like };

/** How attention is computed: 'eager' stores the matrix of attention weights, 'flash' works in blocks without it. */
export const attentionSchema = z.enum(['eager', 'flash']);

export type AttentionKind = z.output<typeof attentionSchema>;
