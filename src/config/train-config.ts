import { z } from 'zod';
import { ConfigError } from '../core/errors';
import { type ConfigIssue, issueMessage, toIssues } from './config-issue';

/** The sizes that have a name. Source: tiny is the notebooks' default, bench the shape of the torch benchmark. */
export const MODEL_SHAPES = {
  tiny: { kind: 'gpt', layers: 4, dim: 128, heads: 4, vocab: 2048, seq: 64 },
  bench: { kind: 'gpt', layers: 4, dim: 256, heads: 8, vocab: 8192, seq: 128 },
} as const;

const size = z.int().min(1);
const fraction = z.number().min(0).lt(1);

const modelSchema = z.strictObject({
  kind: z.literal('gpt'),
  layers: size,
  dim: size,
  heads: size,
  vocab: size,
  seq: size,
});

const parallelSchema = z.strictObject({
  strategy: z.enum(['NO_SHARD', 'SHARD_GRAD_OP', 'FULL_SHARD']).default('FULL_SHARD'),
  /** Which modules become units of their own: every block, or none but the root. */
  wrap: z.enum(['blocks', 'root']).default('blocks'),
  /** Gathers the next unit while a unit's forward runs. */
  forwardPrefetch: z.boolean().default(true),
  /** When the next unit is gathered in backward: before or after the unit's gradients are computed, or on demand. */
  backwardPrefetch: z.enum(['BACKWARD_PRE', 'BACKWARD_POST']).nullable().default('BACKWARD_PRE'),
  /** Size of a bucket of gradients under NO_SHARD. Source: bucket_cap_mb of torch's DistributedDataParallel. */
  bucketBytes: size.default(25 * 2 ** 20),
});

const optimizerSchema = z.strictObject({
  lr: z.number().min(0).default(1e-3),
  betas: z.tuple([fraction, fraction]).default([0.9, 0.95]),
  eps: z.number().positive().default(1e-8),
  weightDecay: z.number().min(0).default(0.1),
});

const configSchema = z.strictObject({
  model: z.union([z.enum(['tiny', 'bench']), modelSchema]).default('tiny'),
  parallel: parallelSchema.prefault({}),
  data: z.enum(['typescript', 'synthetic']).default('typescript'),
  /** Sequences a rank and micro-batch. */
  batch: size.default(4),
  /** Micro-batches a step. */
  accumulation: size.default(1),
  optimizer: optimizerSchema.prefault({}),
  /** Largest norm of all gradients together; null leaves them. */
  clipNorm: z.number().positive().nullable().default(1),
  seed: z.int().default(0),
  steps: z.int().min(0).default(20),
});

/** What to train and how: the model, its strategy, data, optimizer and length. */
export type TrainConfig = Readonly<z.output<typeof configSchema>>;

/** A TrainConfig in which everything that has a default may be left out. */
export type TrainConfigInput = z.input<typeof configSchema>;

export type ParallelConfig = TrainConfig['parallel'];
export type StrategyName = ParallelConfig['strategy'];
export type ModelConfig = z.output<typeof modelSchema>;

const KEYS: Readonly<Record<string, readonly string[]>> = {
  '': Object.keys(configSchema.shape),
  model: Object.keys(modelSchema.shape),
  parallel: Object.keys(parallelSchema.shape),
  optimizer: Object.keys(optimizerSchema.shape),
};

/** What a setting may be called at a place ('' is the top). */
export function knownKeys(path: string): readonly string[] {
  return KEYS[path] ?? [];
}

/** Either a config or all that is wrong with the input. */
export type ConfigCheck =
  | { readonly config: TrainConfig }
  | { readonly issues: readonly [ConfigIssue, ...ConfigIssue[]] };

/** Checks an input without throwing. */
export function checkTrainConfig(input: unknown): ConfigCheck {
  const parsed = configSchema.safeParse(input);
  if (!parsed.success) return { issues: toIssues(parsed.error.issues, input, knownKeys) };
  const { dim, heads, vocab } = modelShape(parsed.data);
  if (dim % heads !== 0) {
    return {
      issues: [
        {
          path: ['model', 'heads'],
          message: `dim ${dim} is not divisible by heads ${heads}; change one of them`,
        },
      ],
    };
  }
  if (parsed.data.data === 'typescript' && vocab < 256) {
    return {
      issues: [
        {
          path: ['model', 'vocab'],
          message: `vocab ${vocab} is too small for text as bytes; give at least 256`,
        },
      ],
    };
  }
  return { config: parsed.data };
}

/** A full config from a partial one. Throws: CONFIG naming every key that is wrong, the nearest known key, and the value. */
export function parseTrainConfig(input: unknown): TrainConfig {
  const checked = checkTrainConfig(input ?? {});
  if ('config' in checked) return checked.config;
  throw new ConfigError(checked.issues.map((issue) => issueMessage(issue)).join('\n'), {
    issues: checked.issues,
  });
}

/** The model's sizes, whether named or spelled out. */
export function modelShape(config: Pick<TrainConfig, 'model'>): ModelConfig {
  return typeof config.model === 'string' ? MODEL_SHAPES[config.model] : config.model;
}
