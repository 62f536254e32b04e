import { existsSync, statSync } from 'node:fs';
import { resolve } from 'node:path';
import {
  dataRanksOf,
  isLanguageModel,
  kindOf,
  MODEL_NAMES,
  modelShape,
  parseTrainConfig,
  type TrainConfig,
  type TrainConfigInput,
} from '../../config';
import { ConfigError } from '../../core';
import type { LocatedKey } from '../../programs';
import { readOthers, type SftValues } from './flags';

/** The largest number of tokens per row, unless --max_length gives another one. */
const MOST_TOKENS = 2048;

/** Stands in for the number of steps until the rows are counted. */
const MOST_STEPS = 1e9;

/** Rows of all ranks per step, if the arguments do not give them. Source: ms-swift's trainers/arguments.py. */
const ROWS_PER_STEP = 16;

/** The arguments of a training, and how it runs. */
export interface SftSettings {
  readonly values: SftValues;
  readonly others: readonly LocatedKey[];
  readonly ranks: number;
  readonly cwd: string;
  readonly note: (line: string) => void;
}

/** Returns the config of a training, except for the number of its steps. Throws: CONFIG naming the argument. */
export function configOf({ values, others, ranks, cwd, note }: SftSettings): TrainConfigInput {
  const { dataset, val_dataset: validationFiles, split_dataset_ratio: share = 0 } = values;
  if (dataset === undefined)
    throw new ConfigError(
      'sft: --dataset is missing; name a file with conversations, such as --dataset chats.jsonl',
    );
  const model = modelOf(values, cwd);
  const config = {
    ...readOthers(others, { steps: MOST_STEPS, cwd, note }),
    model,
    // The schedule depends on the number of steps, so `withSteps` sets it.
    schedule: null,
    data: {
      instructions: dataset,
      tokenizer: values.tokenizer,
      chatTemplate: values.template,
      system: values.system,
      packing: values.packing ?? false,
      truncation: values.truncation_strategy ?? 'delete',
      validation: validationFiles ?? (share > 0 ? share : null),
    },
  } as const;
  const parsed = parseTrainConfig(config);
  const rows = parsed.batch * dataRanksOf(parsed, ranks);
  const accumulation = values.gradient_accumulation_steps ?? Math.max(1, Math.ceil(ROWS_PER_STEP / rows));
  return { ...config, accumulation };
}

/** Returns the number of steps: the value of --max_steps, or the steps of all epochs if an epoch has `rows` rows. */
export function stepsOf(config: TrainConfig, { values, ranks }: SftSettings, rows: number): number {
  const { max_steps: steps, num_train_epochs: epochs = 3 } = values;
  if (steps !== undefined) return steps;
  const perStep = config.batch * config.accumulation * dataRanksOf(config, ranks);
  return Math.max(1, Math.ceil((epochs * rows) / perStep));
}

/** Returns the config with a number of steps, and with the schedule for this number. */
export function withSteps(config: TrainConfigInput, settings: SftSettings, steps: number): TrainConfigInput {
  const { others, cwd } = settings;
  const { schedule } = readOthers(others, { steps, cwd, note: () => undefined });
  return { ...config, schedule, steps };
}

function modelOf({ model, max_length: length, attn_impl: attention }: SftValues, cwd: string) {
  if (model === undefined)
    throw new ConfigError(
      "sft: --model is missing; give a model's folder, or the name of a model of shardlab such as tiny",
    );
  const folder = resolve(cwd, model);
  if (existsSync(folder) && statSync(folder).isDirectory()) {
    const { seq } = sizesOf({ from: folder });
    return { from: folder, seq: length ?? Math.min(seq, MOST_TOKENS), attention };
  }
  const named = MODEL_NAMES.find((name) => name === model);
  if (named === undefined && !model.startsWith('{')) {
    throw new ConfigError(
      `sft: --model ${model} is no folder here, and nothing is downloaded; fetch it by huggingface-cli download or modelscope download ` +
        `and give its folder, or one of ${MODEL_NAMES.filter((name) => !name.includes('wan')).join(', ')}`,
    );
  }
  const shape = sizesOf(named ?? parsedSizes(model));
  return { ...shape, seq: length ?? Math.min(shape.seq, MOST_TOKENS), ...(attention && { attention }) };
}

function parsedSizes(text: string): TrainConfigInput['model'] {
  try {
    return JSON.parse(text) as TrainConfigInput['model']; // `parseTrainConfig` checks it later
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new ConfigError(`sft: --model is not JSON (${reason}); write {"kind": "llama", "layers": 2, …}`);
  }
}

/** Returns the sizes of a language model. Throws: CONFIG for a model of another kind. */
function sizesOf(model: TrainConfigInput['model']) {
  const shape = modelShape(parseTrainConfig({ model, data: 'synthetic' }));
  if (isLanguageModel(shape) && kindOf(shape)?.takesInstructions) return shape;
  throw new ConfigError(
    `sft: --model is a ${shape.kind}; only models of kind gpt or llama train on conversations`,
  );
}
