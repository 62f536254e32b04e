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
import { fsdp, TRAINING_ARGUMENTS } from './transformers';

// Arguments of swift sft that change little here. Source: ms-swift's Command-line-parameters.md.

const KINDS =
  'is for another kind of adapters or optimizer; here there are LoRA, adamW, adamW8bit, lion and sgd';

const SWIFT_OTHER: KeyTable = {
  ENV: none('variables of the other program, in a file'),
  ...allNone(
    'weights are not quantized here',
    'bnb_4bit_compute_dtype bnb_4bit_quant_type bnb_4bit_use_double_quant bnb_4bit_quant_storage hqq_axis',
  ),
  ...allNone(
    KINDS,
    'galore_target_modules galore_rank galore_update_proj_gap galore_scale galore_proj_type galore_optim_per_parameter galore_with_embedding galore_quantization galore_proj_quant galore_proj_bits galore_proj_group_size galore_cos_threshold galore_gamma_proj galore_queue_size lora_ga_batch_size lora_ga_iters lora_ga_max_length lora_ga_direction lora_ga_scale lora_ga_stable_gamma fourier_n_frequency fourier_scaling boft_block_size boft_block_num boft_dropout vera_rank vera_projection_prng_key vera_dropout vera_d_initial adalora_target_r adalora_init_r adalora_tinit adalora_tfinal adalora_delta adalora_beta1 adalora_beta2 adalora_orth_reg_weight adalora_deltaT adapter_act adapter_length boft_n_butterfly_factor reft_layer_key reft_layers reft_rank reft_intervention_type reft_args llamapro_num_new_blocks llamapro_num_groups lisa_step_interval lorap_lr_ratio',
  ),
  use_galore: refused('GaLore is not built here'),
  use_swift_lora: none("adapters here are PEFT's"),
  optimizer: refused('optimizers of plugins are not read; write optimizer.kind'),
  lisa_activated_layers: refused('LISA is not built here; frozen freezes modules'),
  lora_dtype: none('adapters are float32 here, and mixedPrecision decides the dtype of matmuls'),
  target_regex: refused('write the names of modules as lora.targets'),
  target_parameters: refused('write the names of modules as lora.targets'),
  ...allNone(
    'data never ends here, so a run counts steps and not epochs; write steps',
    'max_epochs early_stop_interval',
  ),
  ...allNone(
    'is for generating answers; run.sample does this here',
    'max_new_tokens temperature top_k top_p repetition_penalty num_beams stream stop_words logprobs top_logprobs structured_outputs_regex',
  ),
  ...allNone(
    'run.savePretrained writes whole parameters as safetensors',
    'safe_serialization max_shard_size merge_lora use_flash_ckpt resume_only_model',
  ),
  ...allNone(
    'rank and step decide which batch is read here, and texts fill sequences without gaps',
    'cached_val_dataset packing_length packing_num_proc packing_strategy disable_auto_column_mapping use_logits_to_keep template_backend preserve_thinking disable_ignore_empty_think is_binary_loss_scale max_pixels',
  ),
  ...allNone(
    'run.evaluate evaluates, and run.log writes every step',
    'eval_use_evalscope eval_dataset eval_dataset_args eval_limit eval_generation_config eval_metric callbacks swanlab_token swanlab_project swanlab_workspace swanlab_exp_name swanlab_notification_method swanlab_webhook_url swanlab_secret swanlab_mode swanlab_email_language swanlab_receiver_email swanlab_sender_email swanlab_smtp_port swanlab_smtp_server extra_eval_args',
  ),
  ...allNone(
    'is for other models or other ways of training',
    'experts_impl router_aux_loss_coef enable_dft_loss enable_channel_loss loss_type mrl_dims vit_gradient_checkpointing ds3_gather_for_generation freeze_parameters freeze_parameters_regex freeze_parameters_ratio trainable_parameters trainable_parameters_regex enable_npu_model_patch',
  ),
  ...allNone('is the launcher that starts the processes', 'use_ray ray_exp_name device_groups'),
  zero_hpz_partition_size: both(
    decides('parallel.reshardAfterForward', ({ value }) =>
      wholeOf(value) === 1
        ? { effect: 'none', why: 'parameters are gathered from all ranks' }
        : { sets: { 'parallel.reshardAfterForward': wholeOf(value) } },
    ),
    ({ config: { parallel }, ranksPerMachine }) =>
      STRATEGIES[parallel.strategy].isHybrid ? (parallel.mesh?.dpShard ?? ranksPerMachine) : undefined,
  ),
  deepspeed_autotp_size: decides('parallel.tp', ({ value }) => ({ sets: { 'parallel.tp': wholeOf(value) } })),
};

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
