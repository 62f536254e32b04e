import { z } from 'zod';
import { kindsWhere, MODEL_KINDS } from '../families/families';
import { leftOutInputs } from '../families/left-out';
import { modelConflicts } from '../model-conflicts';
import type { ConfigIssue, Facts, PlannedOn, Section, Setting } from '../setting';
import { DATA, type DataSetting, dataConflicts, dataSchema, ownData, withoutUseOfData } from './data';
import { DPO } from './dpo';
import { besideAdapters, LORA } from './lora';
import { ACTIVATION_CHECKPOINTING, OFFLOAD, offloadSchema } from './memory';
import { anyOf, isOwnModel, type ModelSetting, modelSchema, modelShape, publishedModelName } from './model';
import { OPTIMIZER, optimizerSchema } from './optimizer';
import { PARALLEL, parallelSchema } from './parallel';
import { GRAD_SCALER, MIXED_PRECISION, mixedPrecisionSchema, precisionConflict } from './precision';
import { SCHEDULE } from './schedule';
import { MOVING_SHAPES, TEXT_ENCODER, videoConflicts } from './videos';

/** The part of a config that the rules below read. */
export interface Read {
  readonly model: ModelSetting;
  readonly data: DataSetting;
  readonly clipNorm: number | null;
  readonly accumulation: number;
  readonly parallel: { readonly pp: number; readonly cp: number };
}

/** What sizes of each kind are unlike those of a gpt. */
const DIFFERENCES = Object.entries(MODEL_KINDS)
  .flatMap(([kind, { differs }]) => (differs === undefined ? [] : [`'${kind}' ${differs}`]))
  .join(', ');

/**
 * [Note: the table of settings] A row here, or in a section that a row names, defines everything about a setting: its schema
 * and default, its meaning, its names in other frameworks, when it has no effect, what contradicts it, and how a plan uses it.
 * The following are derived from rows: the config's types, its warnings and conflicts, the suggestion for a misspelled name, the
 * arguments of calls, `--set`, docs/reference/settings.md and what the planner reads. A new setting is a row and the code that uses it.
 */
export const SETTINGS = {
  model: {
    schema: modelSchema.default('tiny'),
    says: 'a name, or a kind and its sizes: see Models',
    names: { wan: 'task' },
    form:
      "'tiny', 'bench', a published model's name such as 'llama3-8b', or " +
      `{ kind: 'gpt', layers: 2, dim: 64, heads: 4, vocab: 256, seq: 32 }; ${DIFFERENCES}`,
    conflict: (config: Read): readonly ConfigIssue[] => {
      const shape = modelShape(config);
      const found = isOwnModel(shape) ? [] : modelConflicts(shape);
      const isBytes = config.data === 'typescript' || ownData(config.data)?.path !== undefined;
      const hasTokenizer = ownData(config.data)?.tokenizer !== undefined;
      if (!isBytes || hasTokenizer || !('vocab' in shape) || shape.vocab >= 256) return found;
      const message = `vocab ${shape.vocab} is too small for text as bytes; give at least 256`;
      return [...found, { path: ['model', 'vocab'], message }];
    },
    warns: ({ config }: Facts<Read>): string | null => leftOutInputs(publishedModelName(config.model)),
    changes: 'loss',
    planned: { reads: true },
  },
  parallel: {
    schema: parallelSchema.prefault({}),
    says: 'how ranks share the model',
    form: "{ strategy: 'FULL_SHARD' }",
    planned: 'by part',
    parts: PARALLEL,
  },
  mixedPrecision: {
    schema: mixedPrecisionSchema.default(null),
    says: "dtypes of training; 'bf16' and 'fp16' set the dtype of parameters and of the reduction. `null`: float32",
    form: "'bf16', 'fp16', { paramDtype: 'bf16', reduceDtype: 'fp32' }, or null for float32",
    names: {
      fsdp: 'mixed_precision',
      fullyShard: ['mp_policy', 'precision'],
      ddp: 'precision',
      fairScale: 'mixed_precision',
      deepSpeed: ['bf16', 'fp16'],
      accelerate: 'mixed_precision',
    },
    hint: ", as 'bf16' or { paramDtype: 'bf16', reduceDtype: 'fp32' }",
    conflict: (config: Parameters<typeof precisionConflict>[0]): readonly ConfigIssue[] => {
      const message = precisionConflict(config);
      return message === null ? [] : [{ path: [], message }];
    },
    planned: 'by part',
    parts: MIXED_PRECISION,
  },
  gradScaler: GRAD_SCALER,
  offload: {
    schema: offloadSchema.prefault({}),
    says: 'what is stored on the host instead of the device',
    form: '{ optimizer: true }, { parameters: true } or { activations: true }',
    planned: 'by part',
    parts: OFFLOAD,
  },
  activationCheckpointing: ACTIVATION_CHECKPOINTING,
  data: {
    schema: dataSchema.default('typescript'),
    says:
      "'typescript': source code as bytes; 'synthetic': token ids by a formula; 'moving-shapes': videos with captions, for a dit; the path of your own file or folder of text, JSONL, CSV, " +
      'Parquet or images, or, for a dit, of a folder of videos with a metadata.csv; an object with the keys below; or, in `job.train`, a function `(scope, index) => batch`',
    form: "'./my.txt', or { path: './texts', tokenizer: './tokenizer.json', validation: 0.1 }",
    idle: withoutUseOfData,
    conflict: (config: Read): readonly ConfigIssue[] => [...dataConflicts(config), ...videoConflicts(config)],
    changes: 'loss',
    planned: { ignored: 'batches have the same shape with any data', but: plannedData },
    parts: DATA,
  },
  movingShapes: MOVING_SHAPES,
  textEncoder: TEXT_ENCODER,
  loss: {
    schema: z.literal('function').nullable().default(null),
    says:
      "a function that computes the loss from the model's output and the batch, as `job.train` takes it. `null`: a model " +
      `of kind ${anyOf(kindsWhere(({ trainsOn }) => trainsOn !== null))} uses the loss of its kind; the output of any other model is the loss`,
    form: 'a function of job.train, as loss: (output, batch) => …, or null',
    changes: 'loss',
    planned: { ignored: 'the work of a loss is small' },
  },
  batch: {
    schema: z
      .int()
      .min(1)
      .max(2 ** 20)
      .default(4),
    says: 'rows (sequences of tokens, images or videos) per data-parallel rank and pass',
    names: {
      torch: 'batch_size',
      deepSpeed: 'train_micro_batch_size_per_gpu',
      transformers: 'per_device_train_batch_size',
      megatron: 'micro_batch_size',
    },
    hint: ', per data-parallel rank and pass',
    form: 'the rows of a rank and pass; accumulation is the number of passes',
    changes: 'loss',
    planned: { reads: true },
  },
  accumulation: {
    schema: z
      .int()
      .min(1)
      .max(2 ** 16)
      .default(1),
    says: 'passes per step; with `parallel.pp`, each pass divides its batch into microbatches',
    names: {
      deepSpeed: 'gradient_accumulation_steps',
      transformers: 'gradient_accumulation_steps',
      accelerate: 'gradient_accumulation_steps',
    },
    changes: 'loss',
    planned: {
      reads: true,
      but: ({ accumulation, parallel }: Read): string | null =>
        parallel.pp > 1 && accumulation > 1
          ? 'is planned as one pass with all microbatches: stages are not idle between passes'
          : null,
    },
  },
  optimizer: {
    schema: optimizerSchema.prefault({}),
    says: "the optimizer and its options; the defaults are torch's and bitsandbytes', as in `%%ranks` cells",
    form: "{ kind: 'adamW', lr: 1e-3 }",
    planned: 'by part',
    parts: OPTIMIZER,
  },
  schedule: SCHEDULE,
  frozen: {
    schema: z.array(z.string()).default([]),
    says: "names of modules whose parameters are not trained; '*' stands for one part of a name",
    form: "['wte', 'blocks.0']",
    names: { torch: 'requires_grad_' },
    idle: besideAdapters,
    changes: 'loss',
    planned: { reads: true },
  },
  lora: LORA,
  dpo: DPO,
  clipNorm: {
    schema: z.number().positive().nullable().default(1),
    says:
      'largest norm of all gradients together: larger gradients are scaled down. `null`: gradients are not clipped. ' +
      "Source of the default: transformers' TrainingArguments",
    form: 'a number above 0, or null for none',
    names: {
      torch: 'clip_grad_norm_',
      deepSpeed: 'gradient_clipping',
      transformers: 'max_grad_norm',
      megatron: 'clip_grad',
      accelerate: ['gradient_clipping', 'megatron_lm_gradient_clipping'],
    },
    changes: 'loss',
    planned: {
      ignored: 'the norm is computed in any case',
      but: ({ clipNorm }: Read): string | null =>
        clipNorm === null ? 'is not read: the norm of all gradients is always planned' : null,
    },
  },
  seed: {
    schema: z.int().default(0),
    says: 'seed of initial values and batches',
    names: { torch: 'manual_seed', transformers: 'seed' },
    changes: 'loss',
    planned: { ignored: 'the work does not depend on the value' },
  },
  steps: {
    schema: z.int().min(0).default(20),
    says: 'number of steps of `shardlab run`; in a notebook, `run.step(n)` gives the number',
    names: { torch: 'epochs', transformers: ['num_train_epochs', 'max_steps'] },
    hint: ', or run.step(n): data never ends here, so a run counts steps and not epochs',
    changes: 'loss',
    planned: { ignored: 'a plan predicts one step' },
  },
} as const satisfies Readonly<Record<string, Setting<never> | Section<never>>>;

/** Returns what a plan assumes about packed rows; null if rows are not packed. */
function plannedData({ data }: Read, { exampleTokens }: PlannedOn): string | null {
  if (ownData(data)?.packing !== true) return null;
  return exampleTokens === undefined
    ? 'is planned as if each row were one example, but a packed example attends only to itself, so attention takes less time than planned. To plan packed examples, give exampleTokens (the mean number of tokens per example)'
    : `is planned as packed examples of ${exampleTokens} tokens each; with unequal lengths, attention takes more time`;
}
