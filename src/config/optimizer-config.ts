import { z } from 'zod';

const fraction = z.number().min(0).lt(1);

export const optimizerSchema = z.strictObject({
  /** adamW8bit keeps its moments in one byte an element. Source: Dettmers et al. 2022, block-wise quantization. */
  kind: z.enum(['adamW', 'adamW8bit', 'sgd']).default('adamW'),
  lr: z.number().min(0).default(1e-3),
  betas: z.tuple([fraction, fraction]).default([0.9, 0.95]),
  eps: z.number().positive().default(1e-8),
  weightDecay: z.number().min(0).default(0.1),
  /** Of sgd. */
  momentum: fraction.default(0),
  /** Of sgd. */
  nesterov: z.boolean().default(false),
  /** Accepted: the update is one pass over the shard in any case. */
  fused: z.boolean().default(true),
  /** Of adamW8bit: elements that share a scale. */
  blockSize: z.int().min(16).default(256),
  /** Each step applies the gradients of the step before. Source: ZeRO-Offload's one-step delayed parameter update. */
  delayedUpdate: z.boolean().default(false),
});

export type OptimizerConfig = Readonly<z.output<typeof optimizerSchema>>;

/** The learning rate rises to the optimizer's over warmupSteps, then falls to etaMin at maxSteps by a cosine. */
export const scheduleSchema = z.strictObject({
  kind: z.literal('WarmupCosineLR').default('WarmupCosineLR'),
  warmupSteps: z.int().min(0).default(0),
  maxSteps: z.int().min(1),
  etaMin: z.number().min(0).default(0),
});

export type ScheduleConfig = Readonly<z.output<typeof scheduleSchema>>;
