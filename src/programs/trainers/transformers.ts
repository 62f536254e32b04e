import { decayStepsOf, type ScheduleConfig } from '../../config';
import {
  allNone,
  both,
  COMPILED,
  decides,
  type Exported,
  isNothing,
  type KeyInput,
  type KeyRow,
  type KeyTable,
  none,
  planSwitch,
  refused,
  settingBoth,
  settingKeys,
  type Translation,
  wrongValue,
} from '../rows/key-row';
import type { Dialect } from '../rows/meant';
import { modelMeaning, SEQUENCE } from '../rows/models';
import {
  clip,
  floatOf,
  number,
  numberOf,
  strategyOf,
  whole,
  wholeFromZero,
  wholeOf,
  word,
  wordOf,
  yesOf,
} from '../rows/values';
import { weightDecayRow } from '../rows/weight-decay';

// The optimizer and the schedule of transformers' TrainingArguments.

/** Patterns of names by kind. Exports write the name of a kind's first pattern. */
const OPTIMIZERS: readonly (readonly [pattern: RegExp, kind: string, written?: string])[] = [
  [
    /^adamw_(torch|hf|torch_fused|apex_fused|torch_xla|torch_npu_fused|anyprecision)$/,
    'adamW',
    'adamw_torch',
  ],
  [/^(paged_)?adamw_(8bit|bnb_8bit)$|^adamw_torch_8bit$/, 'adamW8bit', 'adamw_bnb_8bit'],
  [/^(paged_)?adamw(_32bit)?$/, 'adamW'],
  [/^(paged_)?lion(_32bit)?$/, 'lion', 'lion_32bit'],
  [/^sgd$/, 'sgd', 'sgd'],
];

function optim({ value }: KeyInput): Translation {
  const name = String(value).toLowerCase();
  const kind = OPTIMIZERS.find(([pattern]) => pattern.test(name))?.[1];
  if (kind === undefined)
    return {
      effect: 'refused',
      why: `there is no optimizer ${name} here; choose optimizer.kind adamW, adamW8bit, lion or sgd`,
    };
  return { sets: { 'optimizer.kind': kind } };
}

/** transformers' schedules. The first name of a kind is the one that exports write. */
const SCHEDULES: Readonly<Record<string, string>> = {
  linear: 'linear',
  cosine: 'cosine',
  constant_with_warmup: 'constant',
  constant: 'constant',
  warmup_stable_decay: 'wsd',
  cosine_with_min_lr: 'cosine',
};

const MIN_LR = 'cosine_with_min_lr';

function schedule({ value }: KeyInput): Translation {
  const kind = SCHEDULES[String(value).toLowerCase()];
  if (kind === undefined)
    return {
      effect: 'refused',
      why: `there is no schedule ${String(value)} here; choose schedule.kind ${Object.keys(SCHEDULES).join(', ')}`,
    };
  return { sets: { 'schedule.kind': kind } };
}

/** Returns the name of an export's schedule; WarmupCosineLR is written as a cosine. */
function scheduleName({ config: { schedule: given } }: Exported): string | undefined {
  const kind = given?.kind ?? 'constant';
  if (kind !== 'cosine' && kind !== 'WarmupCosineLR') return wordOf(SCHEDULES, kind);
  return (given?.etaMin ?? 0) > 0 ? MIN_LR : 'cosine';
}

const DECAYS = ['linear', 'cosine', '1-sqrt'];

/** Returns the settings for a schedule's own arguments, which are an object, or JSON on a command line. */
function scheduleArguments({ value, other }: KeyInput): Translation {
  const given: unknown = typeof value === 'string' ? parsed(value) : value;
  if (typeof given !== 'object' || given === null) throw wrongValue(value, 'an object, as {"min_lr": 1e-5}');
  const lr = Number(other('learning_rate') ?? Number.NaN);
  const sets: Record<string, unknown> = {};
  const unknown: string[] = [];
  for (const [key, each] of Object.entries(given)) {
    if (key === 'min_lr') sets['schedule.etaMin'] = numberOf(each);
    else if (key === 'min_lr_rate' || key === 'min_lr_ratio') sets['schedule.etaMin'] = lr * numberOf(each);
    else if (key === 'num_decay_steps') sets['schedule.decaySteps'] = wholeOf(each);
    else if (key === 'decay_type') sets['schedule.decayType'] = word(wordsOf(DECAYS))(each);
    else unknown.push(key);
  }
  const isUnknown = unknown.length > 0 || Object.values(sets).some(Number.isNaN);
  return isUnknown
    ? {
        effect: 'refused',
        why: `${unknown.join(', ') || 'a share of the learning rate, without a line that has the rate,'} cannot be read; write schedule.etaMin, schedule.decaySteps and schedule.decayType`,
      }
    : { sets };
}

const wordsOf = (names: readonly string[]): Readonly<Record<string, string>> =>
  Object.fromEntries(names.map((name) => [name, name]));

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw wrongValue(text, 'JSON, as {"min_lr": 1e-5}');
  }
}

/** Returns the arguments that an export's schedule needs. */
function writtenArguments({ config }: Exported): Readonly<Record<string, unknown>> | undefined {
  const { schedule: given, optimizer, steps } = config;
  if (given === null) return undefined;
  if (given.kind === 'wsd') return wsdArguments(given, optimizer.lr, steps);
  return scheduleName({ config, machines: 1, ranksPerMachine: 1 }) === MIN_LR
    ? { min_lr: given.etaMin }
    : undefined;
}

function wsdArguments(given: ScheduleConfig, lr: number, steps: number): Readonly<Record<string, unknown>> {
  return {
    num_decay_steps: decayStepsOf(given, steps),
    decay_type: given.decayType,
    ...(given.etaMin > 0 && { min_lr_ratio: given.etaMin / lr }),
  };
}

/** Returns the steps of warm-up: a number below 1, or the ratio, is a share of all steps. */
function warmup(input: KeyInput): Translation {
  const { key, value, other } = input;
  const given = numberOf(value);
  if (key !== 'warmup_ratio' && (given === 0 || given >= 1))
    return { sets: { 'schedule.warmupSteps': wholeFromZero(given, input) } };
  const steps = other('max_steps') ?? other('train_iters');
  if (given === 0) return { effect: 'none', why: 'the rate does not rise' };
  if (typeof steps !== 'number' || steps <= 0)
    return {
      effect: 'warning',
      why: 'is a share of the steps, and no line has the number of steps; write schedule.warmupSteps',
    };
  return { sets: { 'schedule.warmupSteps': Math.ceil(given * steps) } };
}

const beta = (index: 0 | 1): KeyRow =>
  both(
    decides('optimizer.betas', ({ value, other }) => {
      const betas = [numberOf(other('adam_beta1') ?? 0.9), numberOf(other('adam_beta2') ?? 0.999)];
      betas[index] = numberOf(value);
      return { sets: { 'optimizer.betas': betas } };
    }),
    ({ config: { optimizer } }) => (optimizer.kind === 'sgd' ? undefined : optimizer.betas[index]),
  );

/** Rows of the optimizer and the schedule. */
const OPTIMIZATION: KeyTable = {
  ...settingKeys('transformers', {
    'optimizer.lr': { learning_rate: settingBoth('optimizer.lr', number) },
    'optimizer.weightDecay': { weight_decay: weightDecayRow("transformers' Trainer") },
    'optimizer.betas': { adam_beta1: beta(0), adam_beta2: beta(1) },
    'optimizer.eps': { adam_epsilon: settingBoth('optimizer.eps', number) },
    'optimizer.kind': {
      optim: both(
        decides('optimizer.kind', optim),
        ({ config }) => OPTIMIZERS.find(([, kind]) => kind === config.optimizer.kind)?.[2],
      ),
    },
    schedule: { lr_scheduler_type: both(decides('schedule.kind', schedule), scheduleName) },
    'schedule.warmupSteps': {
      warmup_steps: both(
        decides('schedule.warmupSteps', warmup),
        ({ config }) => config.schedule?.warmupSteps ?? 0,
      ),
      warmup_ratio: decides('schedule.warmupSteps', warmup),
    },
  }),
  lr_scheduler_kwargs: both(decides('schedule', scheduleArguments), writtenArguments),
};

// transformers' TrainingArguments, and the arguments of the scripts that use them. Source: transformers' training_args.py.

const LOGS = 'run.log writes JSON lines; nothing is written for TensorBoard or other loggers';
const SAVES = 'in a notebook, run.step(n, { saveSteps, outputDir }) saves; shardlab run has --save';
const EVALUATES = 'in a notebook, run.evaluate() and run.step(n, { evalSteps }) evaluate';
const HUB = 'nothing is downloaded from a hub or sent to one';
const LOADER = 'rank and step decide which batch is read here';
const DEVICE = 'ranks run on CPUs here; a plan is for GPUs';

/** Returns the row of bf16 or fp16: the dtypes of torch.autocast, unless FSDP or DeepSpeed shards the model. */
function half(paramDtype: 'bfloat16' | 'float16'): KeyRow {
  const row = decides('mixedPrecision.paramDtype', ({ value, other }) => {
    if (!yesOf(value)) return { effect: 'none', why: 'is off' };
    const isSharded = !isNothing(other('fsdp') ?? '') || !isNothing(other('deepspeed') ?? '');
    return isSharded
      ? { sets: { 'mixedPrecision.paramDtype': paramDtype } }
      : {
          sets: { 'mixedPrecision.paramDtype': paramDtype },
          // This is only a default, because a config of Accelerate may shard the model.
          usual: { 'mixedPrecision.reduceDtype': 'float32' },
          why: 'torch.autocast, whose gradients are float32',
        };
  });
  return both(row, ({ config }) => config.mixedPrecision?.paramDtype === paramDtype);
}

/** Returns what the words of --fsdp mean: 'full_shard auto_wrap offload'. */
export function fsdp({ value }: KeyInput): Translation {
  if (value === true) return { sets: { 'parallel.strategy': 'FULL_SHARD' } };
  const words = [value]
    .flat()
    .flatMap((text) => String(text).split(/[\s,]+/))
    .filter((text) => text !== '');
  if (isNothing(value) || words.length === 0) return { effect: 'none', why: 'is off' };
  const strategy = words.find((word) => !['auto_wrap', 'offload'].includes(word.toLowerCase()));
  return {
    sets: {
      'parallel.strategy': strategy === undefined ? 'FULL_SHARD' : strategyOf(strategy),
      'parallel.wrap': words.includes('auto_wrap') || strategy === undefined ? 'blocks' : 'root',
      ...(words.includes('offload') && { 'offload.parameters': true }),
    },
  };
}

export function fileKey(says: string): KeyRow {
  return {
    ...none(says),
    mean: ({ value }) => {
      if (isNothing(value)) return { effect: 'none', why: 'is empty' };
      if (/^\s*[{[]/.test(String(value)))
        return {
          effect: 'warning',
          why: 'settings on the command line are not read; write them into a file',
        };
      return { file: String(value), effect: 'used', why: 'is read too' };
    },
  };
}

/** Whether a value names a file or a folder of data, not a data set of a hub. */
export function isDataFile(value: unknown): boolean {
  return /\.(jsonl?|csv|tsv|txt|parquet)$|^[./~]/.test(String(value));
}

/** Returns the row of a file or folder of data. */
export const DATA: KeyRow = decides('data.path', ({ value }) => {
  const [first] = [value].flat();
  if (isNothing(first)) return { effect: 'none', why: 'is empty' };
  if (isDataFile(String(first).replace(/#\d+$/, '')) && /#\d+$/.test(String(first)))
    return {
      effect: 'refused',
      why: `${String(first)} names a part of a file; write the rows that you want into a file of their own`,
    };
  return isDataFile(first)
    ? { sets: { 'data.path': Array.isArray(value) ? value.map(String) : String(value) } }
    : {
        effect: 'refused',
        why: `${String(first)} is a data set on a hub, and nothing is downloaded; write data: './file.jsonl'. Until then, batches are source code as bytes`,
      };
});

const epochs = ({ value }: KeyInput): Translation => ({
  effect: 'none',
  why: `data never ends here, so a run counts steps and not ${numberOf(value)} epochs; write steps`,
});

const SETTINGS: KeyTable = {
  ...OPTIMIZATION,
  ...settingKeys('transformers', {
    batch: { per_device_train_batch_size: settingBoth('batch', whole) },
    accumulation: { gradient_accumulation_steps: settingBoth('accumulation', whole) },
    clipNorm: { max_grad_norm: settingBoth('clipNorm', clip, (norm) => norm ?? 0) },
    seed: { seed: settingBoth('seed', wholeFromZero) },
    steps: {
      max_steps: both(
        decides('steps', ({ value }) =>
          numberOf(value) > 0
            ? { sets: { steps: wholeOf(value) } }
            : { effect: 'none', why: 'is off, so the number of epochs decides' },
        ),
        ({ config }) => config.steps,
      ),
      num_train_epochs: decides('steps', epochs),
    },
    activationCheckpointing: (value) => (yesOf(value) ? 'full' : null),
    'parallel.strategy': { fsdp: decides('parallel.strategy', fsdp) },
    'data.dropLast': {
      dataloader_drop_last: none(
        'the built-in data leaves no incomplete batch; write data.dropLast with your own data',
      ),
    },
  }),
  bf16: half('bfloat16'),
  fp16: half('float16'),
  deepspeed: fileKey("DeepSpeed's JSON, which is read too"),
  fsdp_config: fileKey('a file of FSDP, which is read too'),
  accelerator_config: fileKey("a file of Accelerate's settings"),
  parallelism_config: none('write parallel.tp, parallel.cp and parallel.mesh'),
  fsdp_min_num_params: decides('parallel.wrap', ({ value }) =>
    numberOf(value) > 0
      ? { sets: { 'parallel.wrap': { minNumParams: wholeOf(value) } } }
      : { effect: 'none', why: 'is off' },
  ),
  fsdp_transformer_layer_cls_to_wrap: decides('parallel.wrap', ({ value }) =>
    isNothing(value)
      ? { effect: 'none', why: 'is empty' }
      : { sets: { 'parallel.wrap': 'blocks' }, why: 'every block is a unit' },
  ),
  torch_compile: planSwitch('compile', COMPILED, yesOf),
  ...allNone('a plan knows only whether the model is compiled', 'torch_compile_backend torch_compile_mode'),
  auto_find_batch_size: refused('an out-of-memory error here lists settings that would fit'),
  optim_args: refused('write the settings of optimizer'),
  optim_target_modules: refused('GaLore and similar optimizers are not built here'),
  neftune_noise_alpha: refused('noise in embeddings is not built here'),
  label_smoothing_factor: refused(
    'labels are not smoothed here; write a loss of your own',
    (value) => numberOf(value) === 0,
  ),
  average_tokens_across_devices: none('the loss is a mean over the tokens of all ranks here in any case'),
  ...allNone('kernels are fused here in any case', 'use_liger_kernel liger_kernel_config'),
};

const WITHOUT_EFFECT: KeyTable = {
  ...allNone(
    SAVES,
    'output_dir overwrite_output_dir save_strategy save_steps save_total_limit save_safetensors save_on_each_node save_only_model restore_callback_states_from_checkpoint enable_jit_checkpoint resume_from_checkpoint ignore_data_skip load_best_model_at_end metric_for_best_model greater_is_better',
  ),
  ...allNone(
    EVALUATES,
    'do_train do_eval do_predict eval_strategy evaluation_strategy eval_steps eval_delay eval_on_start eval_do_concat_batches eval_accumulation_steps per_device_eval_batch_size per_gpu_eval_batch_size prediction_loss_only batch_eval_metrics eval_use_gather_object include_inputs_for_metrics include_for_metrics fp16_full_eval bf16_full_eval',
  ),
  ...allNone(
    LOGS,
    'logging_dir logging_strategy logging_first_step logging_steps logging_nan_inf_filter log_level log_level_replica log_on_each_node report_to run_name project trackio_space_id trackio_bucket_id trackio_static_space_id disable_tqdm include_num_input_tokens_seen include_tokens_per_second skip_memory_metrics debug',
  ),
  ...allNone(
    HUB,
    'push_to_hub hub_model_id hub_strategy hub_token hub_private_repo hub_always_push hub_revision push_to_hub_model_id push_to_hub_organization push_to_hub_token mp_parameters',
  ),
  ...allNone(
    LOADER,
    'dataloader_num_workers dataloader_pin_memory dataloader_persistent_workers dataloader_prefetch_factor dataloader_in_order dataloader_multiprocessing_context remove_unused_columns label_names group_by_length length_column_name train_sampling_strategy data_seed past_index',
  ),
  ...allNone(
    DEVICE,
    'use_cpu no_cuda use_mps_device use_ipex ipex jit_mode_eval tpu_num_cores tpu_metrics_debug tf32 half_precision_backend fp16_backend fp16_opt_level torch_empty_cache_steps local_rank',
  ),
  ...allNone(
    'jobs here have collectives of their own',
    'ddp_backend ddp_timeout ddp_bucket_cap_mb ddp_broadcast_buffers ddp_static_graph',
  ),
  ddp_find_unused_parameters: none('parameters without a gradient are found here in any case'),
  ...allNone(
    'recomputation has one implementation here',
    'gradient_checkpointing_kwargs activation_checkpointing_kwargs',
  ),
  full_determinism: none('two runs with the same settings are equal to the bit here in any case'),
  torchdynamo: none('a plan knows only whether the model is compiled'),
  use_cache: none('training stores no keys and values here'),
  ray_scope: none('Ray searches for settings; here, a loop of your own does'),
};

/** Returns the row of a setting of data that is a file; `refusal` says why a value is not a file. */
export function ofFile(path: string, refusal: (value: string) => string | null = () => null): KeyRow {
  return decides(path, ({ value, other }) => {
    if (isNothing(value)) return { effect: 'none', why: 'is empty' };
    const given = ['train_file', 'data_path', 'dataset_name'].flatMap((key) => [other(key)].flat());
    if (!given.some(isDataFile))
      return { effect: 'none', why: 'is for data of a file, which no line names; write data with a path' };
    const why = refusal(String(value));
    return why === null ? { sets: { [path]: String(value) } } : { effect: 'none', why };
  });
}

/** Arguments of transformers' and TRL's example scripts beside TrainingArguments. */
const SCRIPTS: KeyTable = {
  model_name_or_path: decides('model', modelMeaning),
  ...settingKeys('transformers', {
    'data.text': { text_column_name: ofFile('data.text') },
    'data.seq': { block_size: SEQUENCE },
    'data.tokenizer': {
      tokenizer_name: ofFile('data.tokenizer', (name) =>
        isDataFile(name)
          ? null
          : `${name} is a tokenizer on a hub, and nothing is downloaded; write data.tokenizer with a file tokenizer.json`,
      ),
    },
    'data.validation': { validation_file: ofFile('data.validation') },
  }),
  mixed_precision: decides('mixedPrecision.paramDtype', (input) =>
    isNothing(input.value)
      ? { effect: 'none', why: 'is off' }
      : half(floatOf(input.value) === 'float16' ? 'float16' : 'bfloat16').mean({ ...input, value: true }),
  ),
  train_file: DATA,
  data_path: DATA,
  dataset_name: DATA,
  ...allNone(
    'data is a local file here, without configurations or splits',
    'dataset_config_name dataset_config dataset_split config_name model_revision token trust_remote_code cache_dir preprocessing_num_workers overwrite_cache use_fast_tokenizer low_cpu_mem_usage torch_dtype dtype streaming max_train_samples max_eval_samples',
  ),
};

/** The defaults of TrainingArguments that differ from ours. */
export const TRAINER_DEFAULTS: Translation = {
  usual: {
    batch: 8,
    'optimizer.lr': 5e-5,
    'optimizer.weightDecay': 0,
    'schedule.kind': 'linear',
    seed: 42,
    'parallel.strategy': 'NO_SHARD',
  },
  why: 'defaults that differ from ours',
};

/** Arguments of a script that uses transformers' Trainer. */
export const TRANSFORMERS: Dialect = {
  name: 'transformers',
  keys: { ...SETTINGS, ...WITHOUT_EFFECT, ...SCRIPTS },
  usual: () => TRAINER_DEFAULTS,
};

/** TrainingArguments without the arguments of scripts, and the rows of settings that other trainers have too. */
export const TRAINING_ARGUMENTS: KeyTable = { ...SETTINGS, ...WITHOUT_EFFECT };
