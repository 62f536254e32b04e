import { z } from 'zod';
import { ConfigError } from '../core/errors';
import { configConflicts } from './config-conflicts';
import { type ConfigIssue, issueMessage, type KnownKeys, toIssues } from './config-issue';
import { activationCheckpointingSchema, offloadSchema } from './memory-config';
import { MODEL_KEYS, modelSchema, size } from './model-config';
import { optimizerFields, optimizerSchema, scheduleSchema } from './optimizer-config';
import { meshSchema, parallelSchema, unitStrategySchema } from './parallel-config';
import {
  GRAD_SCALER_KEYS,
  gradScalerSchema,
  MIXED_PRECISION_KEYS,
  mixedPrecisionSchema,
} from './precision-config';

const configSchema = z.strictObject({
  model: modelSchema.default('tiny'),
  parallel: parallelSchema.prefault({}),
  mixedPrecision: mixedPrecisionSchema.default(null),
  gradScaler: gradScalerSchema.default(null),
  offload: offloadSchema.prefault({}),
  activationCheckpointing: activationCheckpointingSchema.nullable().default(null),
  data: z.enum(['typescript', 'synthetic']).default('typescript'),
  /** Sequences a rank and micro-batch. */
  batch: size.default(4),
  /** Micro-batches a step. */
  accumulation: size.default(1),
  optimizer: optimizerSchema.prefault({}),
  /** null: the learning rate stays. */
  schedule: scheduleSchema.nullable().default(null),
  /** Modules, by name with '*' for one part, whose parameters are not trained. */
  frozen: z.array(z.string()).default([]),
  /** Largest norm of all gradients together; null leaves them. */
  clipNorm: z.number().positive().nullable().default(1),
  seed: z.int().default(0),
  steps: z.int().min(0).default(20),
});

/** What to train and how: the model, its strategy, data, optimizer and length. */
export type TrainConfig = Readonly<z.output<typeof configSchema>>;

/** A TrainConfig in which everything that has a default may be left out. */
export type TrainConfigInput = z.input<typeof configSchema>;

const KEYS: KnownKeys = {
  '': Object.keys(configSchema.shape),
  model: MODEL_KEYS,
  parallel: Object.keys(parallelSchema.shape),
  'parallel.mesh': Object.keys(meshSchema.shape),
  'parallel.wrap': ['minNumParams', 'layerCls', 'modules'],
  'parallel.unitStrategies': Object.keys(unitStrategySchema.shape),
  mixedPrecision: MIXED_PRECISION_KEYS,
  gradScaler: GRAD_SCALER_KEYS,
  offload: Object.keys(offloadSchema.shape),
  activationCheckpointing: ['everyNth', 'saveOps', 'budgetBytes'],
  optimizer: Object.keys(optimizerFields.shape),
  schedule: Object.keys(scheduleSchema.shape),
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
  if (!parsed.success) return { issues: toIssues(parsed.error.issues, input, KEYS) };
  const [first, ...rest] = configConflicts(parsed.data);
  return first === undefined ? { config: parsed.data } : { issues: [first, ...rest] };
}

/** A full config from a partial one. Throws: CONFIG naming every key that is wrong, the nearest known key, and the value. */
export function parseTrainConfig(input: unknown): TrainConfig {
  const checked = checkTrainConfig(input ?? {});
  if ('config' in checked) return checked.config;
  throw new ConfigError(checked.issues.map((issue) => issueMessage(issue)).join('\n'), {
    issues: checked.issues,
  });
}
