import { ACCELERATE_FSDP } from '../accelerate/accelerate-fsdp';
import { DEEPSPEED_KEYS } from '../accelerate/accelerate-keys';
import {
  allNone,
  COMPILED,
  decides,
  isNothing,
  type KeyInput,
  type KeyRow,
  type KeyTable,
  none,
  planSwitch,
  refused,
  type Translation,
} from '../rows/key-row';
import { NOT_KNOWN } from '../rows/meant';
import { floatOf, wholeOf, yesOf } from '../rows/values';
import { fileKey, TRAINER_DEFAULTS, TRAINING_ARGUMENTS } from '../trainers/transformers';
import { call, member, ordered } from './pytorch-fsdp';

// Calls in a script that make objects of Accelerate, transformers and PEFT.

const OWN_LINES = none('is a call that has lines of its own');

/** The row of a number of passes; a variable of the launcher replaces this number. Source: accelerate/accelerator.py. */
const passes: KeyRow = decides('accumulation', ({ value }) => ({ usual: { accumulation: wholeOf(value) } }));

/** Returns the row of an argument of another table; the argument's value may be a member of an enumeration, or computed. */
function argument(row: KeyRow): KeyRow {
  return {
    ...row,
    mean: (input) =>
      input.value === NOT_KNOWN
        ? { effect: 'warning', why: `not known here: line ${input.line} computes it` }
        : row.mean({ ...input, value: plain(input.value) }),
  };
}

function allArguments(table: KeyTable): KeyTable {
  return Object.fromEntries(Object.entries(table).map(([name, row]) => [name, argument(row)]));
}

/** Returns the word of an enumeration's member: 'no' for PrecisionType.NO. */
function plain(value: unknown): unknown {
  return typeof value === 'string' && /^[A-Z]\w*\.[A-Z_0-9]+$/.test(value)
    ? member(value).toLowerCase()
    : value;
}

/** Returns the dtypes of Accelerator(mixed_precision=…): torch.autocast's, unless a file of Accelerate shards the model. */
function mixedPrecision({ value }: KeyInput): Translation {
  if (isNothing(value) && value !== 'no') return { effect: 'none', why: 'the launcher decides' };
  if (value === 'fp8')
    return { place: { isFp8: true }, why: 'float8 is only planned; a run here computes in float32' };
  const paramDtype = floatOf(value);
  if (paramDtype === 'float32')
    return {
      sets: { 'mixedPrecision.paramDtype': null },
      why: "the script's float32 is used, whatever the launcher's file says",
    };
  return {
    sets: { 'mixedPrecision.paramDtype': paramDtype },
    usual: { 'mixedPrecision.reduceDtype': 'float32' },
    why: "torch.autocast, whose gradients are float32; the script's dtype is used, whatever the launcher's file says",
  };
}

/** Returns the rows of ParallelismConfig: the rows of a file of Accelerate, without the keys' prefix. */
function parallelism(): KeyTable {
  const prefix = 'parallelism_config_';
  return Object.fromEntries(
    Object.entries(ACCELERATE_FSDP.parallelism).map(([key, row]) => [
      key.replace(prefix, ''),
      argument({
        ...row,
        mean: (input) =>
          withReplicas(row.mean({ ...input, key, other: (name) => input.other(name.replace(prefix, '')) })),
      }),
    ]),
  );
}

/** Adds the strategy to a mesh of replicas, because a script sets the mesh and the strategy in different calls. */
function withReplicas(meaning: Translation): Translation {
  return meaning.sets?.['parallel.mesh'] === undefined
    ? meaning
    : { ...meaning, sets: { ...meaning.sets, 'parallel.strategy': 'HYBRID_SHARD' } };
}

const ACCELERATOR: KeyTable = {
  mixed_precision: argument(decides('mixedPrecision.paramDtype', mixedPrecision)),
  gradient_accumulation_steps: passes,
  dynamo_backend: argument(planSwitch('compile', COMPILED, (value) => !isNothing(value))),
  split_batches: refused(
    'the rows of the loader are those of all ranks together; write batch, the rows of one rank',
  ),
  cpu: none('ranks run on CPUs here; a plan is for GPUs'),
  device_placement: none('ranks run on CPUs here; a plan is for GPUs'),
  step_scheduler_with_optimizer: none('the learning rate changes with each step here'),
  torch_tp_plugin: refused('write parallel.tp'),
  ...Object.fromEntries(
    [
      'fsdp_plugin',
      'deepspeed_plugin',
      'deepspeed_plugins',
      'parallelism_config',
      'gradient_accumulation_plugin',
    ].map((name) => [name, OWN_LINES]),
  ),
  megatron_lm_plugin: refused(
    'the arguments of MegatronLMPlugin are not read; write them into a file of Accelerate',
  ),
  dynamo_plugin: none('a plan knows only whether the model is compiled'),
  kwargs_handlers: none('arguments of DDP and of loss scaling have their usual values here'),
  dataloader_config: none('rank and step decide which batch is read here'),
  rng_types: none('random numbers depend on seed, rank and step alone here'),
  ...allNone(
    'run.log writes JSON lines; nothing is written for TensorBoard or other loggers',
    'log_with project_dir project_config',
  ),
};

/** Accelerate's objects. Source: accelerate/accelerator.py and accelerate/utils/dataclasses.py of Accelerate 1.15.0. */
export const ACCELERATE_CALLS: KeyTable = {
  Accelerator: {
    ...none('makes the model data-parallel, as the launcher says'),
    parts: ordered(
      ACCELERATOR,
      'device_placement split_batches mixed_precision gradient_accumulation_steps cpu dataloader_config deepspeed_plugin fsdp_plugin torch_tp_plugin megatron_lm_plugin rng_types log_with project_dir project_config gradient_accumulation_plugin step_scheduler_with_optimizer kwargs_handlers dynamo_backend dynamo_plugin deepspeed_plugins parallelism_config',
    ),
  },
  DeepSpeedPlugin: {
    ...none('settings of DeepSpeed'),
    parts: ordered(
      {
        ...allArguments(DEEPSPEED_KEYS),
        hf_ds_config: argument(fileKey("DeepSpeed's JSON, which is read too")),
        is_train_batch_min: none('write batch'),
        transformer_moe_cls_names: none('every expert is a unit here'),
        enable_msamp: refused('MS-AMP is not built here'),
        msamp_opt_level: none('is for MS-AMP'),
      },
      'hf_ds_config gradient_accumulation_steps gradient_clipping zero_stage is_train_batch_min offload_optimizer_device offload_param_device offload_optimizer_nvme_path offload_param_nvme_path zero3_init_flag zero3_save_16bit_model transformer_moe_cls_names enable_msamp msamp_opt_level',
    ),
  },
  GradientAccumulationPlugin: {
    ...none('passes per step'),
    parts: {
      num_steps: passes,
      adjust_scheduler: none('the learning rate changes with each step here'),
      sync_with_dataloader: none('data never ends here'),
      sync_each_batch: none('parallel.requiresGradientSync decides'),
    },
  },
  ParallelismConfig: {
    ...none('degrees of the mesh'),
    parts: ordered(
      {
        ...parallelism(),
        ...allNone(
          'chooses the implementation of attention in the other program',
          'tp_handler cp_handler sp_handler',
        ),
      },
      'dp_replicate_size dp_shard_size tp_size cp_size cp_backend sp_size sp_backend tp_handler cp_handler sp_handler',
    ),
  },
};

/** Arguments that only Seq2SeqTrainingArguments has. */
const GENERATION = allNone(
  'is for generating answers; run.sample does this here',
  'sortish_sampler predict_with_generate generation_max_length generation_num_beams generation_config',
);

/** Returns the row of a call that makes the arguments of a Trainer; a script gives the output folder by position. */
export function trainerCall(keys: KeyTable, usual: KeyRow['mean']): KeyRow {
  const { output_dir = none(''), ...others } = allArguments(keys);
  return call(usual, { output_dir, ...others }, 'optimizer');
}

/** Arguments of PEFT's LoraConfig. Source: peft/tuners/lora/config.py. */
const LORA: KeyTable = {
  r: decides('lora.r', ({ value }) => ({ sets: { 'lora.r': wholeOf(value) } })),
  target_modules: decides('lora.targets', ({ value }) => {
    if (isNothing(value)) return { effect: 'none', why: 'is empty' };
    const isPattern = typeof value === 'string' && value !== 'all-linear' && !/^\w+$/.test(value);
    if (isPattern)
      return {
        effect: 'refused',
        why: 'is a regular expression; write the names of modules as lora.targets',
      };
    return { sets: { 'lora.targets': value === 'all-linear' ? value : [value].flat().map(String) } };
  }),
  lora_alpha: decides('lora.alpha', ({ value }) => ({ sets: { 'lora.alpha': Number(value) } })),
  lora_dropout: decides('lora.dropout', ({ value }) => ({ sets: { 'lora.dropout': Number(value) } })),
  use_dora: decides('lora.useDora', ({ value }) =>
    yesOf(value) ? { sets: { 'lora.useDora': true } } : { effect: 'none', why: 'is off' },
  ),
  use_rslora: refused('rank-stabilized LoRA is not built here; write lora.alpha'),
  bias: refused('adapters have no bias here'),
  modules_to_save: refused('only adapters train with LoRA here'),
  init_lora_weights: refused("adapters have PEFT's usual initial values here", (value) => value === true),
  ...Object.fromEntries(
    [
      'target_parameters',
      'exclude_modules',
      'layers_to_transform',
      'layers_pattern',
      'rank_pattern',
      'alpha_pattern',
    ].map((name) => [name, refused('write the names of modules as lora.targets')]),
  ),
  ...allNone(
    'a model has one loss here',
    'task_type inference_mode base_model_name_or_path revision peft_type',
  ),
  fan_in_fan_out: none('weights have the order of torch.nn.Linear here'),
};

/** The calls that make the arguments of transformers' Trainer. */
export const TRAINER_CALLS: KeyTable = {
  TrainingArguments: trainerCall(TRAINING_ARGUMENTS, () => TRAINER_DEFAULTS),
  Seq2SeqTrainingArguments: trainerCall({ ...TRAINING_ARGUMENTS, ...GENERATION }, () => TRAINER_DEFAULTS),
};

/** The call that makes PEFT's adapters. */
export const ADAPTER_CALLS: KeyTable = {
  LoraConfig: call(
    () => ({
      usual: { 'lora.r': 8, 'lora.alpha': 8, 'lora.dropout': 0, 'lora.targets': ['q_proj', 'v_proj'] },
      why: 'adapters train; without target_modules, q_proj and v_proj get them, as in PEFT for Llama, Mistral and Qwen',
    }),
    LORA,
    'lora',
  ),
};
