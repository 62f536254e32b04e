import { STRATEGIES, settingAt } from '../../config';
import { ACCELERATE_FSDP } from '../accelerate/accelerate-fsdp';
import {
  allNone,
  both,
  decides,
  type Exported,
  ifOn,
  isNothing,
  type KeyInput,
  type KeyRow,
  type KeyTable,
  none,
  refused,
  section,
  settingKeys,
  type Translation,
} from '../rows/key-row';
import type { Dialect } from '../rows/meant';
import { ATTENTION, FIRST_ADAPTERS, modelMeaning, SEQUENCE, writtenSequence } from '../rows/models';
import { floatOf, strategyOf, strategyOfStage, wholeOf, word, yesOf } from '../rows/values';
import { swiftData } from './swift-data';
import { SWIFT_OTHER } from './swift-keys';
import { fsdp, TRAINING_ARGUMENTS } from './transformers';

// ms-swift: `swift sft`, which has arguments of its own and those of transformers, and `megatron sft`. Source: ms-swift's Command-line-parameters.md.

const NEVER = 'swift has no such argument';

/** Arguments that a document writes for swift, but that swift does not have. */
export const DOCUMENT: KeyTable = {
  parallel_method: decides('parallel.strategy', ({ value }): Translation => {
    const method = word({
      fsdp: 'FULL_SHARD',
      megatron: 'NO_SHARD',
      ddp: 'NO_SHARD',
      deepspeed: 'FULL_SHARD',
    } as const)(value);
    const instead = {
      fsdp: '--fsdp fsdp2',
      megatron: 'the command megatron sft',
      ddp: 'NPROC_PER_NODE alone',
      deepspeed: '--deepspeed zero3',
    };
    const today = Object.entries(instead).find(([name]) => name === String(value).toLowerCase())?.[1];
    return {
      usual: { 'parallel.strategy': method },
      effect: 'warning',
      why: `${NEVER}; swift has ${today}; it is read as parallel.strategy: ${method}`,
    };
  }),
  tensor_parallel_size: degree('parallel.tp', '--tensor_model_parallel_size of megatron sft'),
  pipeline_parallel_size: degree('parallel.pp', '--pipeline_model_parallel_size of megatron sft'),
  sharding_strategy: decides('parallel.strategy', ({ value }): Translation => {
    const strategy = String(value).toLowerCase() === 'full' ? 'FULL_SHARD' : strategyOf(value);
    return {
      sets: { 'parallel.strategy': strategy },
      effect: 'warning',
      why: `${NEVER}; swift has --fsdp fsdp2; it is read as parallel.strategy: ${strategy}`,
    };
  }),
  mixed_precision: decides('mixedPrecision.paramDtype', ({ value }): Translation => {
    const paramDtype = floatOf(value);
    if (paramDtype === 'float32') return { effect: 'warning', why: `${NEVER}; float32 is the default here` };
    const name = paramDtype === 'float16' ? '--fp16 true' : '--bf16 true';
    return {
      sets: { 'mixedPrecision.paramDtype': paramDtype },
      effect: 'warning',
      why: `${NEVER}; swift has ${name}; it is read as mixedPrecision.paramDtype: ${paramDtype}`,
    };
  }),
};

function degree(path: string, instead: string): KeyRow {
  return decides(path, ({ value }) => ({
    sets: { [path]: wholeOf(value) },
    effect: 'warning',
    why: `${NEVER}; swift has ${instead}; it is read as ${path}: ${wholeOf(value)}`,
  }));
}

/** DeepSpeed's settings that swift provides by name. */
const ZERO: Readonly<Record<string, Readonly<Record<string, unknown>>>> = {
  ...Object.fromEntries([0, 1, 2, 3].map((stage) => [`zero${stage}`, zeroStage(stage)])),
  zero2_offload: { ...zeroStage(2), 'offload.optimizer': true },
  zero3_offload: { ...zeroStage(3), 'offload.optimizer': true, 'offload.parameters': true },
};

function zeroStage(stage: number) {
  return { 'parallel.strategy': strategyOfStage(stage) };
}

/** Returns swift's name of DeepSpeed's settings; undefined if FSDP shards, or if nothing is sharded. */
function deepspeedName({ config: { parallel, offload } }: Exported): string | undefined {
  const { strategy } = parallel;
  if (STRATEGIES[strategy].isHybrid) return offload.parameters ? 'zero3_offload' : 'zero3';
  if (strategy === 'ZERO_1') return 'zero1';
  if (strategy !== 'ZERO_2') return undefined;
  return offload.optimizer ? 'zero2_offload' : 'zero2';
}

/** Whether an export shards by FSDP 2, whose settings are in a file. */
export function isBySwiftFsdp({ config: { parallel } }: Pick<Exported, 'config'>): boolean {
  return parallel.strategy === 'FULL_SHARD' || parallel.strategy === 'SHARD_GRAD_OP';
}

/** The name of the file that an export gives to swift's --fsdp. */
export const SWIFT_FSDP_FILE = 'fsdp.json';

function deepspeed({ value }: KeyInput): Translation {
  if (isNothing(value)) return { effect: 'none', why: 'is empty' };
  const sets = ZERO[String(value)];
  return sets === undefined ? { file: String(value), effect: 'used', why: 'is read too' } : { sets };
}

function isOn(value: unknown): boolean {
  return value !== undefined && yesOf(value);
}

function fsdpFile({ value }: KeyInput): Translation {
  if (isNothing(value)) return { effect: 'none', why: 'is empty' };
  if (String(value) === 'fsdp2')
    return { sets: { 'parallel.strategy': 'FULL_SHARD' }, usual: { activationCheckpointing: 'full' } };
  return { file: String(value), effect: 'used', why: 'is read too' };
}

const LORA_DEFAULTS = { 'lora.r': 8, 'lora.alpha': 32, 'lora.dropout': 0.05, 'lora.targets': 'all-linear' };

function tuner({ value }: KeyInput): Translation {
  if (String(value) === 'full') return { effect: 'used', why: 'all parameters train' };
  if (String(value) === 'lora') return { usual: LORA_DEFAULTS };
  return {
    effect: 'refused',
    why: `there are no adapters of kind ${String(value)} here; choose lora or full`,
  };
}

/** Settings of adapters, which have an effect only with LoRA; `usual` is the program's default. */
function adapter(path: string, convert: (value: unknown) => unknown, usual: 'lora' | 'full'): KeyRow {
  const row = decides(path, ({ value, other }) => {
    const kind = String(other('tuner_type') ?? other('train_type') ?? other('sft_type') ?? usual);
    return kind === 'lora'
      ? { sets: { [path]: convert(value) } }
      : { effect: 'none', why: `has no effect with ${kind}: it is for LoRA` };
  });
  return both(row, ({ config }) => settingAt(config, path));
}

/** Returns the dtype of matmuls for a dtype of weights. Without --bf16 and --fp16, swift trains float32 weights in float16. */
function weights({ value, other }: KeyInput): Translation {
  const dtype = floatOf(value);
  const given = (key: string): boolean | null => {
    const input = other(key);
    return input === undefined || input === null ? null : yesOf(input);
  };
  const [bf16, fp16] = [given('bf16'), given('fp16')];
  if (bf16 === true || fp16 === true)
    return {
      effect: 'none',
      why: 'is the dtype of stored weights; --bf16 or --fp16 gives the dtype in which they train',
    };
  const paramDtype = dtype === 'bfloat16' ? 'bfloat16' : 'float16';
  const isHalf = (dtype === 'bfloat16' ? bf16 : fp16) !== false;
  return {
    sets: { 'mixedPrecision.paramDtype': isHalf ? paramDtype : null },
    ...(isHalf &&
      dtype === 'float32' && {
        effect: 'warning',
        why: 'mixedPrecision.paramDtype: float16, because swift trains float32 weights with fp16 unless --fp16 is false',
      }),
  };
}

function targets(value: unknown): unknown {
  const names = [value].flat().map(String);
  return names.length === 1 && names[0] === 'all-linear' ? 'all-linear' : names;
}

/** Returns the rows of LoRA's arguments; `usual` says if adapters or all parameters train by default. */
export function adapterKeys(usual: 'lora' | 'full'): KeyTable {
  return {
    ...settingKeys('peft', {
      'lora.alpha': { lora_alpha: adapter('lora.alpha', Number, usual) },
      'lora.dropout': { lora_dropout: adapter('lora.dropout', Number, usual) },
      'lora.targets': { target_modules: adapter('lora.targets', targets, usual) },
    }),
    lora_rank: adapter('lora.r', (value) => wholeOf(value), usual),
  };
}

const CHAT = "conversations are written by the tokenizer's chat template here, and answers count in the loss";

export const SWIFT_KEYS: KeyTable = {
  ...SWIFT_OTHER,
  model: decides('model', modelMeaning),
  model_type: decides('model', (input) =>
    input.other('model') === undefined ? modelMeaning(input) : { effect: 'none', why: 'the model decides' },
  ),
  ...swiftData(),
  tuner_type: both(decides('lora', tuner), ({ config }) => (config.lora === null ? 'full' : 'lora')),
  train_type: decides('lora', tuner),
  sft_type: decides('lora', tuner),
  ...adapterKeys('lora'),
  ...settingKeys('peft', { 'lora.useDora': { use_dora: ifOn(adapter('lora.useDora', yesOf, 'lora')) } }),
  deepspeed: both(decides('parallel.strategy', deepspeed), deepspeedName),
  fsdp: both(decides('parallel.strategy', fsdpFile), (exported) =>
    isBySwiftFsdp(exported) ? SWIFT_FSDP_FILE : undefined,
  ),
  gradient_checkpointing: both(
    decides('activationCheckpointing', ({ value, other }) => {
      if (yesOf(value)) return { sets: { activationCheckpointing: 'full' } };
      const isOfFsdp = String(other('fsdp')) === 'fsdp2' || isOn(other('fsdp_activation_checkpointing'));
      return isOfFsdp
        ? { effect: 'none', why: "FSDP's own recomputation is on" }
        : { sets: { activationCheckpointing: null } };
    }),
    // With FSDP, a key in FSDP's file switches recomputation on.
    (exported) => exported.config.activationCheckpointing !== null && !isBySwiftFsdp(exported),
  ),
  sequence_parallel_size: both(
    decides('parallel.cp', ({ value }) => ({
      sets: { 'parallel.cp': wholeOf(value), ...(wholeOf(value) > 1 && { 'parallel.cpKind': 'ulysses' }) },
    })),
    ({ config }) => config.parallel.cp,
  ),
  torch_dtype: both(decides('mixedPrecision.paramDtype', weights), () => 'float32'),
  max_length: both(SEQUENCE, writtenSequence),
  attn_impl: ATTENTION,
  ...allNone(
    CHAT,
    'agent_template loss_scale max_model_len padding_free padding_side response_prefix norm_bbox enable_thinking add_non_thinking_prefix',
  ),
  ...allNone(
    'nothing is downloaded from a hub',
    'use_hf hub_token model_revision model_author model_name custom_register_path custom_dataset_info download_mode',
  ),
  ...allNone(
    'rank and step decide which batch is read here',
    'dataset_num_proc dataset_shuffle val_dataset_shuffle train_dataloader_shuffle streaming load_from_cache_file lazy_tokenize cached_dataset interleave_prob stopping_strategy shuffle_buffer_size columns strict',
  ),
  ...allNone(
    'run.step(n, { outputDir }) saves',
    'add_version create_checkpoint_symlink logging_dir save_strategy',
  ),
  ...allNone(
    'it is for other models or other ways of training',
    'task_type model_kwargs load_args load_data_args ignore_args_error tuner_backend external_plugins freeze_vit freeze_llm freeze_aligner vit_lr aligner_lr device_map max_memory rope_scaling local_repo_path init_strategy new_special_tokens num_labels problem_type modules_to_save check_model acc_strategy predict_with_generate metric',
  ),
  adapters: FIRST_ADAPTERS,
  use_rslora: refused('rank-stabilized LoRA is not built here; write lora.alpha'),
  lora_bias: none('adapters have no bias here'),
  init_weights: none("adapters have PEFT's initial values here"),
  quant_method: refused('weights are not quantized here'),
  quant_bits: refused('weights are not quantized here'),
};

export const SWIFT: Dialect = {
  name: 'swift',
  stack: (other) => (isNothing(other('deepspeed') ?? '') ? undefined : 'deepspeed'),
  keys: { ...TRAINING_ARGUMENTS, ...SWIFT_KEYS, ...DOCUMENT },
  usual: (other) => ({
    usual: {
      batch: 1,
      'optimizer.lr': isLora(other) ? 1e-4 : 1e-5,
      'optimizer.weightDecay': 0.1,
      'optimizer.betas': [0.9, 0.95],
      'schedule.kind': 'cosine',
      seed: 42,
      'parallel.strategy': 'NO_SHARD',
      activationCheckpointing: 'full',
      ...(isLora(other) && LORA_DEFAULTS),
    },
    place: { usualRows: { rows: 16, isPerDataRank: false } },
    why: `swift's defaults: ${isLora(other) ? 'adapters (LoRA) train, unless --tuner_type full; ' : ''}without --gradient_accumulation_steps, a step has 16 rows of all ranks`,
  }),
};

/** `swift pt`, which trains on texts. */
export const SWIFT_PT: Dialect = { ...SWIFT, keys: { ...SWIFT.keys, ...swiftData(() => true) } };

function isLora(other: KeyInput['other']): boolean {
  const given = other('tuner_type') ?? other('train_type') ?? other('sft_type');
  // `--parallel_method megatron`, which only a document writes, stands for megatron sft, which trains all parameters by default.
  return String(given ?? (other('parallel_method') === 'megatron' ? 'full' : 'lora')) === 'lora';
}

/** The dialect of the file for swift's --fsdp, which has transformers' two arguments of FSDP. */
export const SWIFT_FSDP: Dialect = {
  name: "swift's fsdp",
  keys: {
    fsdp: decides('parallel.strategy', fsdp),
    fsdp_config: section({
      ...ACCELERATE_FSDP.fsdp,
      activation_cpu_offload: decides('offload.activations', ({ value }) => ({
        sets: { 'offload.activations': yesOf(value) },
      })),
    }),
    ...allNone('is a comment', '_description _requires _note _param_docs'),
  },
  prefixes: { fsdp_config: 'fsdp_' },
};
