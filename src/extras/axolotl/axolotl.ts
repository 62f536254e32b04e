import { ShardlabError } from '../../core';
import { isNothing, wholeOf, yesOf } from '../../programs';
import {
  ACCELERATE_FSDP,
  ATTENTION,
  attentionSwitch,
  COMPILED,
  DATA,
  type Dialect,
  decides,
  FIRST_ADAPTERS,
  ifOn,
  type KeyInput,
  type KeyRow,
  type KeyTable,
  modelMeaning,
  none,
  number,
  place,
  planSwitch,
  refused,
  SEQUENCE,
  section,
  setting,
  TRAINING_ARGUMENTS,
  type Translation,
  yes,
} from '../../programs/toolkit';
import { AXOLOTL_REFUSED, AXOLOTL_WITHOUT_EFFECT } from './axolotl-keys';

// Axolotl's YAML. Source: src/axolotl/utils/schemas.

/** Axolotl's names for the sizes that Accelerate's rows read. */
const SIZES: Readonly<Record<string, string>> = {
  parallelism_config_dp_replicate_size: 'dp_replicate_size',
  parallelism_config_dp_shard_size: 'dp_shard_size',
};

const isGiven = (value: unknown): boolean => value !== undefined && !isNothing(value);

const isFsdp = (other: KeyInput['other']): boolean =>
  isGiven(other('fsdp')) ||
  ['fsdp_version', ...Object.keys(ACCELERATE_FSDP.fsdp)].some((key) => other(key) !== undefined);

/** Returns another program's row for a key of Axolotl. `names` translates other keys' names; an empty value has no effect. */
function adapted(row: KeyRow, names: Readonly<Record<string, string>> = {}): KeyRow {
  return {
    ...row,
    mean: (input) =>
      input.value === null
        ? { effect: 'none', why: 'is empty' }
        : row.mean({ ...input, other: (key) => input.other(names[key] ?? key) }),
  };
}

function adaptedAll(table: KeyTable, names: Readonly<Record<string, string>> = {}): KeyTable {
  return Object.fromEntries(Object.entries(table).map(([key, row]) => [key, adapted(row, names)]));
}

/** Returns the row of an argument of transformers' Trainer. Throws: INTERNAL if there is no such argument. */
function trainer(key: string): KeyRow {
  const row = TRAINING_ARGUMENTS[key];
  if (row === undefined) throw new ShardlabError('INTERNAL', `the Trainer has no argument ${key}`);
  return adapted(row);
}

/** Returns the row of a precision; 'auto' takes bfloat16, which every current GPU has. */
function half(key: 'bf16' | 'fp16'): KeyRow {
  const row = trainer(key);
  return {
    ...row,
    mean: (input) =>
      row.mean({
        ...input,
        value: input.value === 'auto' ? true : input.value,
        other: (name) => (name === 'fsdp' ? isFsdp(input.other) : input.other(name)),
      }),
  };
}

const isAdapter = (other: KeyInput['other']): boolean => ['lora', 'qlora'].includes(String(other('adapter')));

const adapterSetting = (path: string, convert: (value: unknown) => unknown): KeyRow =>
  decides(path, ({ value, other }) => {
    if (value === null) return { effect: 'none', why: 'is empty' };
    return isAdapter(other)
      ? { sets: { [path]: convert(value) } }
      : { effect: 'none', why: 'has no effect without adapter: lora' };
  });

function adapter({ value }: KeyInput): Translation {
  if (isNothing(value)) return { effect: 'none', why: 'all parameters train' };
  if (value === 'lora') return { usual: { 'lora.targets': 'all-linear' } };
  if (value === 'qlora')
    return {
      usual: { 'lora.targets': 'all-linear' },
      effect: 'warning',
      why: 'adapters (LoRA) train, but the weights below them are not quantized here',
    };
  return { effect: 'refused', why: `there are no adapters of kind ${String(value)} here; choose lora` };
}

/** Returns the sizes of the mesh, and the number of ranks: both sizes times the degrees. */
function mesh({ other }: KeyInput): Translation {
  const [dpShard, dpReplicate] = [other('dp_shard_size'), other('dp_replicate_size')];
  if (!isGiven(dpShard) || !isGiven(dpReplicate))
    return {
      effect: 'none',
      why: 'only dp_shard_size and dp_replicate_size together make a mesh; without a mesh, all data-parallel ranks share the shards',
    };
  const sizes = { dpReplicate: wholeOf(dpReplicate), dpShard: wholeOf(dpShard) };
  const degrees = ['tensor_parallel_size', 'context_parallel_size', 'sequence_parallel_degree'].map((key) =>
    wholeOf(other(key) ?? 1),
  );
  const world = [...Object.values(sizes), ...degrees].reduce((product, size) => product * size);
  return {
    ...(sizes.dpReplicate > 1 && sizes.dpShard > 1 && { sets: { 'parallel.mesh': sizes } }),
    place: { world },
    why: `all sizes of the mesh, multiplied, give ${world} ranks`,
  };
}

function contextParallel({ value }: KeyInput): Translation {
  return isNothing(value) || wholeOf(value) === 1
    ? { effect: 'none', why: 'sequences are not divided' }
    : { sets: { 'parallel.cp': wholeOf(value), 'parallel.cpKind': 'ring' } };
}

function checkpointing({ value }: KeyInput): Translation {
  if (String(value).startsWith('offload'))
    return { sets: { activationCheckpointing: 'full', 'offload.activations': true } };
  return isNothing(value)
    ? { effect: 'none', why: 'is off' }
    : { sets: { activationCheckpointing: yesOf(value) ? 'full' : null } };
}

const PARALLEL: KeyTable = {
  deepspeed: trainer('deepspeed'),
  fsdp: trainer('fsdp'),
  fsdp_version: none('units shard the rows of parameters here, as FSDP 2 does'),
  fsdp_config: section({
    ...adaptedAll(ACCELERATE_FSDP.fsdp, SIZES),
    fsdp_limit_all_gathers: adapted(setting('parallel.limitAllGathers', yes)),
    fsdp_final_state_dict_type: none('checkpoints here are sharded, and any number of ranks reads them'),
    fsdp_cpu_offload_pin_memory: none('host and device are one memory here'),
    fsdp_mixed_precision_policy: none('bf16 and fp16 decide this'),
  }),
  dp_shard_size: decides('parallel.mesh', mesh),
  dp_replicate_size: decides('parallel.mesh', mesh),
  context_parallel_size: decides('parallel.cp', contextParallel),
  sequence_parallel_degree: decides('parallel.cp', contextParallel),
  tensor_parallel_size: setting('parallel.tp', (value) => (isNothing(value) ? undefined : wholeOf(value))),
  expert_parallel_size: setting('parallel.ep', (value) => (isNothing(value) ? undefined : wholeOf(value))),
  gradient_checkpointing: decides('activationCheckpointing', checkpointing),
  activation_offloading: decides('offload.activations', ({ value }) =>
    isNothing(value) ? { effect: 'none', why: 'is off' } : { sets: { 'offload.activations': true } },
  ),
  bf16: half('bf16'),
  bfloat16: half('bf16'),
  fp16: half('fp16'),
  float16: half('fp16'),
  fp8: place('float8; only a plan takes it into account', (value) => ({ isFp8: !isNothing(value) })),
  torch_compile: planSwitch('compile', COMPILED, (value) => value !== null && value !== false),
  deepcompile: planSwitch('compile', COMPILED, (value) => !isNothing(value)),
};

const TRAINING: KeyTable = {
  base_model: decides('model', modelMeaning),
  micro_batch_size: setting('batch', (value) => wholeOf(value)),
  gradient_accumulation_steps: trainer('gradient_accumulation_steps'),
  batch_size: place('rows of all ranks per step', (value) =>
    isNothing(value) ? {} : { globalBatch: wholeOf(value) },
  ),
  optimizer: trainer('optim'),
  learning_rate: setting('optimizer.lr', number),
  weight_decay: trainer('weight_decay'),
  adam_beta1: trainer('adam_beta1'),
  adam_beta2: trainer('adam_beta2'),
  adam_epsilon: trainer('adam_epsilon'),
  optim_args: trainer('optim_args'),
  optim_target_modules: trainer('optim_target_modules'),
  lr_scheduler: trainer('lr_scheduler_type'),
  lr_scheduler_kwargs: trainer('lr_scheduler_kwargs'),
  cosine_min_lr_ratio: decides('schedule.etaMin', ({ value, other }) =>
    value === null
      ? { effect: 'none', why: 'is empty' }
      : { sets: { 'schedule.etaMin': Number(other('learning_rate')) * Number(value) } },
  ),
  max_grad_norm: trainer('max_grad_norm'),
  max_steps: trainer('max_steps'),
  num_epochs: trainer('num_train_epochs'),
  warmup_steps: trainer('warmup_steps'),
  warmup_ratio: trainer('warmup_ratio'),
  seed: trainer('seed'),
  auto_find_batch_size: trainer('auto_find_batch_size'),
  neftune_noise_alpha: trainer('neftune_noise_alpha'),
  sequence_len: SEQUENCE,
  datasets: { ...DATA, mean: (input) => DATA.mean({ ...input, value: pathsOf(input.value) }) },
  pretraining_dataset: { ...DATA, mean: (input) => DATA.mean({ ...input, value: pathsOf(input.value) }) },
  flash_attention: attentionSwitch('flash'),
  sdp_attention: attentionSwitch('flash'),
  xformers_attention: attentionSwitch('flash'),
  eager_attention: attentionSwitch('eager'),
  attn_implementation: ATTENTION,
};

/** Returns the paths of a list of data sets. */
function pathsOf(value: unknown): unknown {
  const items = Array.isArray(value) ? value : [value];
  return items.map((item: unknown) =>
    typeof item === 'object' && item !== null && 'path' in item ? item.path : item,
  );
}

const QUANTIZED = refused('weights are not quantized here');

const ADAPTERS: KeyTable = {
  adapter: decides('lora', adapter),
  lora_r: adapterSetting('lora.r', (value) => wholeOf(value)),
  lora_alpha: adapterSetting('lora.alpha', Number),
  lora_dropout: adapterSetting('lora.dropout', Number),
  lora_target_modules: adapterSetting('lora.targets', (value) => [value].flat().map(String)),
  lora_target_linear: decides('lora.targets', (input) =>
    isNothing(input.value)
      ? { effect: 'none', why: 'is off' }
      : adapterSetting('lora.targets', () => 'all-linear').mean(input),
  ),
  lora_model_dir: FIRST_ADAPTERS,
  load_in_4bit: QUANTIZED,
  load_in_8bit: QUANTIZED,
  gptq: QUANTIZED,
  quantization: QUANTIZED,
  qat: QUANTIZED,
  peft_use_dora: ifOn(adapterSetting('lora.useDora', yesOf)),
  peft_use_rslora: refused('rank-stabilized LoRA is not built here; write lora.alpha'),
  relora: refused('ReLoRA is not built here; LoRA is'),
  rl: refused('training on preferences or rewards is not built here; supervised fine-tuning is'),
  reward_model: refused('training on preferences or rewards is not built here'),
  process_reward_model: refused('training on preferences or rewards is not built here'),
};

/** Axolotl's YAML. */
export const AXOLOTL: Dialect = {
  name: 'Axolotl',
  keys: { ...AXOLOTL_WITHOUT_EFFECT, ...AXOLOTL_REFUSED, ...TRAINING, ...PARALLEL, ...ADAPTERS },
  prefixes: { fsdp_config: 'fsdp_' },
  ignoresOthers: true,
  usual: (other) => ({
    usual: {
      batch: 1,
      'optimizer.weightDecay': 0,
      'schedule.kind': 'cosine',
      'parallel.strategy': isFsdp(other) ? 'FULL_SHARD' : 'NO_SHARD',
    },
    why: "Axolotl's defaults",
  }),
};
