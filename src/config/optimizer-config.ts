import { z } from 'zod';

const fraction = z.number().min(0).lt(1);

/** AdamW's settings where none are given, in cells and in configs. Source: torch.optim.AdamW. */
export const ADAMW_DEFAULTS = {
  lr: 1e-3,
  betas: [0.9, 0.999],
  eps: 1e-8,
  weightDecay: 0.01,
  fused: true,
} as const;

/** SGD's. Source: torch.optim.SGD. */
export const SGD_DEFAULTS = { lr: 1e-3, momentum: 0, nesterov: false, weightDecay: 0, fused: true } as const;

/** Those of 8-bit AdamW. Source: bitsandbytes' AdamW8bit. */
export const ADAMW_8BIT_DEFAULTS = { ...ADAMW_DEFAULTS, blockSize: 256 } as const;

/** The settings of every optimizer, before a default depends on the kind. */
export const optimizerFields = z.strictObject({
  /** adamW8bit keeps its moments in one byte an element. Source: Dettmers et al. 2022, block-wise quantization. */
  kind: z.enum(['adamW', 'adamW8bit', 'sgd']).default('adamW'),
  lr: z.number().min(0).default(ADAMW_DEFAULTS.lr),
  betas: z.tuple([fraction, fraction]).default([...ADAMW_DEFAULTS.betas]),
  eps: z.number().positive().default(ADAMW_DEFAULTS.eps),
  /** Default: 0.01, of sgd 0. */
  weightDecay: z.number().min(0).optional(),
  /** Of sgd. */
  momentum: fraction.default(SGD_DEFAULTS.momentum),
  /** Of sgd. */
  nesterov: z.boolean().default(SGD_DEFAULTS.nesterov),
  /** Accepted: the update is one pass over the shard in any case. */
  fused: z.boolean().default(ADAMW_DEFAULTS.fused),
  /** Of adamW8bit: elements that share a scale. */
  blockSize: z.int().min(16).default(ADAMW_8BIT_DEFAULTS.blockSize),
  /** Each step applies the gradients of the step before. Source: ZeRO-Offload's one-step delayed parameter update. */
  delayedUpdate: z.boolean().default(false),
});

export const optimizerSchema = optimizerFields.transform((given) => ({
  ...given,
  weightDecay: given.weightDecay ?? (given.kind === 'sgd' ? SGD_DEFAULTS : ADAMW_DEFAULTS).weightDecay,
}));

export type OptimizerConfig = Readonly<z.output<typeof optimizerSchema>>;

/** The learning rate rises to the optimizer's over warmupSteps, then falls to etaMin at maxSteps by a cosine. */
export const scheduleSchema = z.strictObject({
  kind: z.literal('WarmupCosineLR').default('WarmupCosineLR'),
  warmupSteps: z.int().min(0).default(0),
  maxSteps: z.int().min(1),
  etaMin: z.number().min(0).default(0),
});

export type ScheduleConfig = Readonly<z.output<typeof scheduleSchema>>;
