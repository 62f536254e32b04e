import { resolve } from 'node:path';
import { nearest } from '../../config';
import { ConfigError, ownValue } from '../../core';
import {
  isNothing,
  type LocatedKey,
  numberOf,
  type Reading,
  readArguments,
  readConfig,
  SWIFT_COMMANDS,
  wholeOf,
  word,
  yesOf,
} from '../../programs';

/** An argument of `shardlab sft` that the command itself reads; all other arguments are read as by `shardlab read`. */
interface SftFlag<Value> {
  /** How --help writes the argument's value. */
  readonly value: string;
  readonly says: string;
  /** Throws: CONFIG for a value that is not possible. */
  readonly read: (value: unknown, cwd: string) => Value;
}

const flag = <Value>(
  value: string,
  says: string,
  read: (value: unknown, cwd: string) => Value,
): SftFlag<Value> => ({ value, says, read });

const paths = (value: unknown, cwd: string): string[] =>
  [value].flat().map((path) => localPath(String(path), cwd));
const path = (value: unknown, cwd: string): string => resolve(cwd, String(value));
const whole = (value: unknown): number => wholeOf(value);

/** Throws: CONFIG for a kind of training other than DPO. */
function rlhfType(value: unknown): 'dpo' {
  if (String(value) === 'dpo') return 'dpo';
  throw new ConfigError(
    `${String(value)} is not trained here, only dpo; swift rlhf or TRL's trainers continue ${FURTHER}`,
  );
}

const FURTHER = 'from the exported folder last (or last-merged)';

/** The arguments that the command reads, with the names and defaults of ms-swift 4.6. */
export const FLAGS = {
  model: flag(
    '<folder>',
    "a model's folder, the name of a model of shardlab such as tiny, or a model's sizes as JSON",
    String,
  ),
  tokenizer: flag(
    '<folder>',
    "a folder with tokenizer.json (default: the model's folder; without the file, bytes are tokens)",
    path,
  ),
  dataset: flag('<files…>', 'conversations: JSON lines, a JSON list or CSV', paths),
  val_dataset: flag('<files…>', 'conversations that are never trained on', paths),
  split_dataset_ratio: flag('<share>', 'share of --dataset for validation (default 0)', numberOf),
  rlhf_type: flag('<dpo>', 'trains on pairs of answers (DPO), as swift rlhf does', rlhfType),
  beta: flag('<n>', 'with --rlhf_type dpo: how strongly the reference model holds (default 0.1)', numberOf),
  label_smoothing: flag('<share>', 'with --rlhf_type dpo: share of interchanged pairs (default 0)', numberOf),
  template: flag(
    '<file>',
    "a chat template of Jinja, or chatml (default: the tokenizer's)",
    (value, cwd: string) => (value === 'chatml' ? 'chatml' : path(value, cwd)),
  ),
  system: flag('<text>', 'the system message of conversations without one', String),
  max_length: flag('<n>', "tokens per row (default: the model's length, but at most 2048)", whole),
  truncation_strategy: flag(
    '<side>',
    'what happens to longer examples: delete, or cut at the left or right (default delete)',
    word({ delete: 'delete', left: 'left', right: 'right' } as const),
  ),
  packing: flag('<true|false>', 'puts several examples into one row (default false)', yesOf),
  attn_impl: flag('<name>', 'flash_attn or eager (default eager)', (value): 'flash' | 'eager' =>
    /flash/.test(String(value)) ? 'flash' : 'eager',
  ),
  num_train_epochs: flag('<n>', 'passes over the examples (default 3)', numberOf),
  max_steps: flag('<n>', 'number of steps, which replaces the number of epochs', whole),
  gradient_accumulation_steps: flag(
    '<n>',
    'microbatches per step (default: so that a step has 16 rows over all ranks)',
    whole,
  ),
  output_dir: flag('<folder>', 'the folder for checkpoints and models (default output)', path),
  save_steps: flag('<n>', 'saves after every n steps, and after the last step (default 500)', whole),
  eval_steps: flag(
    '<n>',
    'evaluates after every n steps, and after the last step (default: as --save_steps)',
    whole,
  ),
  save_total_limit: flag('<n>', 'number of checkpoints that remain; the best one always remains', whole),
  resume_from_checkpoint: flag(
    '<folder>',
    'continues from this checkpoint; true: from the newest checkpoint in --output_dir',
    (value, cwd: string): string | boolean => (typeof value === 'boolean' ? value : path(value, cwd)),
  ),
  merge_lora: flag('<true|false>', 'also writes models with merged adapters (default false)', yesOf),
} as const;

/** The values of the arguments that were given. */
export type SftValues = {
  readonly [Name in keyof typeof FLAGS]?: ReturnType<(typeof FLAGS)[Name]['read']>;
};

/** Arguments in --help that the dialect of swift reads. */
const READ_ELSEWHERE: readonly (readonly [string, string])[] = [
  ['tuner_type <name>', 'lora or full (default lora); --train_type means the same'],
  ['lora_rank <n>', 'default 8'],
  ['lora_alpha <n>', 'default 32'],
  ['lora_dropout <share>', 'default 0.05'],
  ['target_modules <names…>', 'default all-linear'],
  ['use_dora <true|false>', 'default false'],
  ['learning_rate <rate>', 'default 1e-4 for LoRA, 1e-5 for full'],
  ['lr_scheduler_type <name>', 'default cosine'],
  ['warmup_ratio <share>', 'default 0'],
  ['weight_decay <n>', 'default 0.1'],
  ['per_device_train_batch_size <n>', 'rows per rank and microbatch (default 1)'],
  ['max_grad_norm <n>', 'default 1'],
  ['seed <n>', 'default 42'],
  ['deepspeed <name>', 'zero1, zero2 or zero3; to shard by FSDP2 instead, write --fsdp fsdp2'],
];

/** What the user does with the result in other programs. */
const ELSEWHERE: Readonly<Record<string, string>> = {
  reward_model: `reward models are not trained here; swift rlhf --rlhf_type rm or TRL's RewardTrainer continue ${FURTHER}`,
  use_vllm: 'vLLM is not built in; vllm serve output/last-merged loads the exported folder',
  infer_backend:
    'no server is built in: vllm serve output/last-merged, lmdeploy serve api_server output/last-merged and swift infer load the exported folder',
  eval_use_evalscope:
    'EvalScope is not built in; evalscope eval --model output/last-merged loads the exported folder',
  eval_backend:
    'EvalScope is not built in; evalscope eval --model output/last-merged loads the exported folder',
  push_to_hub:
    'nothing is sent to a hub; huggingface-cli upload or modelscope upload send the exported folder',
  use_hf: 'nothing is downloaded; huggingface-cli download or modelscope download fetch a folder for --model',
};

const FILE = 'command line';

/** Reads the words after `shardlab sft`. Throws: CONFIG naming the argument and the nearest known one. */
export function readFlags(
  words: readonly string[],
  cwd: string,
): { readonly values: SftValues; readonly others: readonly LocatedKey[] } {
  const lines = words.map((text) => ({ text, line: 1 }));
  const isForPairs = words.some((word) => /^--rlhf_type(=|$)/.test(word));
  const keys = SWIFT_COMMANDS[isForPairs ? 'rlhf' : 'sft'].keys;
  const { entries } = readArguments(lines, { file: FILE, keys });
  const values: Record<string, unknown> = {};
  const others: LocatedKey[] = [];
  for (const entry of entries) {
    const name = entry.path[0] ?? '';
    const why = ownValue(ELSEWHERE, name);
    if (why !== undefined && !isNothing(entry.value)) throw new ConfigError(`sft: ${entry.key}: ${why}`);
    const row = Object.entries(FLAGS).find(([own]) => own === name)?.[1];
    if (row === undefined) {
      requireKnown(entry, keys);
      if (why === undefined) others.push(entry);
      continue;
    }
    try {
      values[name] = row.read(entry.value, cwd);
    } catch (error) {
      if (error instanceof ConfigError)
        throw new ConfigError(`sft: ${entry.key}: ${error.message}`, { cause: error });
      throw error;
    }
  }
  return { values: values as SftValues, others }; // the row of `FLAGS` has read its value
}

function requireKnown(
  { path: [name = ''], key, value }: LocatedKey,
  keys: typeof SWIFT_COMMANDS.sft.keys,
): void {
  if (name === '(argument)')
    throw new ConfigError(`sft: ${String(value)} is no argument; write --dataset ${String(value)}`);
  if (Object.hasOwn(keys, name) || Object.hasOwn(ELSEWHERE, name)) return;
  if (Object.hasOwn(SWIFT_COMMANDS.rlhf.keys, name))
    throw new ConfigError(`sft: ${key} is for pairs of answers; add --rlhf_type dpo`);
  const near = nearest(name, [...Object.keys(FLAGS), ...Object.keys(keys)]);
  const question = near === undefined ? 'shardlab sft --help lists them' : `did you mean --${near}?`;
  throw new ConfigError(`sft: there is no argument ${key}; ${question}`);
}

/**
 * Returns the settings that the other arguments mean in the dialect of swift (of `swift rlhf` for pairs of answers), for a training
 * of `steps` steps. `note` gets a line for each argument without effect. Throws: CONFIG naming arguments that are wrong, or that have
 * no counterpart here.
 */
export function readOthers(
  {
    values,
    others,
    cwd,
  }: { readonly values: SftValues; readonly others: readonly LocatedKey[]; readonly cwd: string },
  { steps, note }: { readonly steps: number; readonly note: (line: string) => void },
): Reading['config'] {
  const words = others.flatMap(({ key, value }) =>
    value === true ? [key] : [key, ...[value].flat().map(String)],
  );
  const { rlhf_type: kind, model, dataset = [] } = values;
  // The command itself reads these; the dialect compares --ref_model with the model, and demands pairs.
  const pairs = kind && { rlhf_type: [kind], model: model === undefined ? [] : [model], dataset };
  const own = Object.entries(pairs ?? {}).filter(([, value]) => value.length > 0);
  const ownWords = own.flatMap(([name, value]) => [`--${name}`, ...value]);
  const program = ['swift', kind === undefined ? 'sft' : 'rlhf', ...ownWords];
  const reading = readConfig([...program, '--max_steps', String(steps), ...words], { cwd });
  const isOthers = (key: string): boolean => !own.some(([name]) => key === `--${name}`);
  const lines = reading.lines.filter(({ key }) => isOthers(key));
  const wrong = lines.filter(({ effect }) => effect === 'error' || effect === 'refused');
  if (wrong.length > 0) throw new ConfigError(wrong.map(({ key, why }) => `sft: ${key}: ${why}`).join('\n'));
  for (const { key, effect, why } of lines)
    if (effect === 'none' || effect === 'warning') note(`${key}: ${why}`);
  return reading.config;
}

/** Returns the text after the options of --help. */
export function flagsHelp(): string {
  const own = Object.entries(FLAGS).map(([name, { value, says }]) => [`${name} ${value}`, says] as const);
  const lines = [...own, ...READ_ELSEWHERE].map(([name, says]) => `  --${name.padEnd(33)} ${says}`);
  return ["\nArguments, with the names and defaults of ms-swift's swift sft:", ...lines].join('\n');
}

/** Returns a path of local data. Throws: CONFIG for a name of a hub. */
function localPath(path: string, cwd: string): string {
  if (/[#:]/.test(path) && !/^[A-Za-z]:/.test(path))
    throw new ConfigError(
      `${path} names a part of a hub's data set; download the data set and give its files`,
    );
  return resolve(cwd, path);
}
