import {
  dataRanksOf,
  decayStepsOf,
  gradScalerOf,
  microbatchesOf,
  modelShape,
  type ScheduleConfig,
  type Stack,
} from '../../config';
import {
  allNone,
  both,
  type Convert,
  decides,
  type Exported,
  flag,
  flags,
  type KeyInput,
  type KeyRow,
  type KeyTable,
  none,
  OVERLAP,
  type Patch,
  place,
  refused,
  settingBoth,
  settingKeys,
  type Translation,
  type Write,
} from '../rows/key-row';
import type { Dialect, Finding } from '../rows/meant';
import { ATTENTION } from '../rows/models';
import { clip, number, numberOf, whole, wholeFromZero, wholeOf, word, wordOf, yesOf } from '../rows/values';
import { weightDecayRow } from '../rows/weight-decay';
import { MEGATRON_OTHER } from './megatron-keys';
import { PARALLEL } from './megatron-parallel';
import { MEGATRON_REST } from './megatron-rest';

const size = (path: string): KeyRow => decides(path, ({ value }) => ({ sets: { [path]: wholeOf(value) } }));

/** Arguments for the sizes and parts of the model; Megatron-LM has a GPT whose parts are chosen one by one. */
const MODEL: KeyTable = {
  num_layers: size('model.layers'),
  hidden_size: size('model.dim'),
  num_attention_heads: size('model.heads'),
  ffn_hidden_size: decides('model.ffn', ({ value, other }) =>
    other('num_experts') === undefined
      ? { sets: { 'model.ffn': wholeOf(value) } }
      : { effect: 'refused', why: 'experts are four times as wide as the model here' },
  ),
  // NullTokenizer adds a token of its own for the end of a document.
  vocab_size: decides('model.vocab', ({ value, other }) => ({
    sets: { 'model.vocab': wholeOf(value) + (String(other('tokenizer_type')) === 'NullTokenizer' ? 1 : 0) },
  })),
  num_query_groups: decides('model.kvHeads', ({ value, other }) =>
    isLlama(other)
      ? { sets: { 'model.kvHeads': wholeOf(value) } }
      : {
          effect: 'refused',
          why: 'a gpt has no groups of queries; a llama has them (--swiglu --normalization RMSNorm)',
        },
  ),
  rotary_base: decides('model.ropeTheta', ({ value, other }) =>
    isLlama(other)
      ? { sets: { 'model.ropeTheta': numberOf(value) } }
      : { effect: 'none', why: 'a gpt has learned positions here' },
  ),
  norm_epsilon: decides('model.normEps', ({ value, other }) =>
    isLlama(other)
      ? { sets: { 'model.normEps': numberOf(value) } }
      : { effect: 'none', why: 'the epsilon of a gpt is 1e-5 here' },
  ),
  num_experts: decides('model.experts', ({ value: given }) => {
    const [value, ...more] = [given].flat();
    if (more.some((other) => other !== value))
      return { effect: 'refused', why: 'all blocks have the same number of experts here' };
    return wholeOf(value) === 1
      ? { effect: 'none', why: 'one expert is a layer without experts' }
      : { sets: { 'model.experts': wholeOf(value), 'model.kind': 'moe' } };
  }),
  moe_router_topk: decides('model.topK', (input) =>
    ofExperts(
      wholeOf(input.value) === 1
        ? { 'model.router': 'switch' } // the factor of the only chosen expert is its probability among all
        : { 'model.topK': wholeOf(input.value), 'model.router': 'topk' },
      input,
    ),
  ),
  moe_aux_loss_coeff: decides('model.auxLossWeight', (input) =>
    ofExperts({ 'model.auxLossWeight': numberOf(input.value) }, input),
  ),
  moe_expert_capacity_factor: decides('model.capacityFactor', (input) =>
    ofExperts({ 'model.capacityFactor': numberOf(input.value) }, input),
  ),
  moe_router_bias_update_rate: decides('model.biasUpdateRate', (input) =>
    ofExperts({ 'model.biasUpdateRate': numberOf(input.value) }, input),
  ),
  ...settingKeys('megatron', { 'data.seq': { seq_length: size('model.seq') } }),
  ...flags({
    untie_embeddings_and_output_weights: decides('model.tied', () => ({ sets: { 'model.tied': false } })),
    add_qkv_bias: decides('model.qkvBias', ({ other }) =>
      isLlama(other)
        ? { sets: { 'model.qkvBias': true } }
        : { effect: 'none', why: 'a gpt has this bias here in any case' },
    ),
    swiglu: none('with --normalization RMSNorm, the model is a llama'),
    group_query_attention: none('--num-query-groups decides this'),
    use_flash_attn: decides('model.attention', () => ({ sets: { 'model.attention': 'flash' } })),
    disable_bias_linear: none("the model's kind decides: llama has no biases, gpt has them"),
    use_rotary_position_embeddings: none(
      "the model's kind decides: llama has rotary positions, gpt learned ones",
    ),
  }),
  normalization: none("the model's kind decides: llama has RMSNorm, gpt LayerNorm"),
  position_embedding_type: none("the model's kind decides: llama has rotary positions, gpt learned ones"),
  max_position_embeddings: none('the model has --seq-length positions'),
  attention_backend: both(ATTENTION, ({ config }) => {
    const shape = modelShape(config);
    return 'attention' in shape && shape.attention === 'flash' ? 'flash' : 'unfused';
  }),
  kv_channels: none('the width of a head is dim / heads here'),
  rotary_percent: refused('whole heads are rotated here', (value) => numberOf(value) === 1),
  make_vocab_size_divisible_by: none('the vocabulary is not padded here'),
  init_method_std: none('initial values have the deviation 0.02 here'),
};

/** Returns settings of experts, if the arguments give the model experts. */
function ofExperts(sets: Patch, { other }: KeyInput): Translation {
  return isMoe(other)
    ? { sets }
    : { effect: 'none', why: 'is for the experts of a model, and this model has none (--num-experts)' };
}

/** Whether the model has experts; one expert is a layer without experts. */
function isMoe(other: KeyInput['other']): boolean {
  return Number(other('num_experts') ?? 1) > 1;
}

/** Whether arguments describe a llama. */
function isLlama(other: KeyInput['other']): boolean {
  if (isMoe(other)) return false;
  return other('swiglu') !== undefined || String(other('normalization')) === 'RMSNorm';
}

// Megatron-LM's arguments. Source: megatron/training/arguments.py and megatron/training/config.

function half(paramDtype: string): KeyRow {
  const row = flag(
    decides('mixedPrecision.paramDtype', ({ value, other }) => {
      if (!yesOf(value)) return { effect: 'none', why: 'is off' };
      if (other('grad_reduce_in_bf16') !== undefined)
        return { sets: { 'mixedPrecision.paramDtype': paramDtype } };
      return {
        sets: { 'mixedPrecision.paramDtype': paramDtype, 'mixedPrecision.reduceDtype': 'float32' },
        why: "Megatron-LM's gradients are float32",
      };
    }),
  );
  return both(row, ({ config }) => (config.mixedPrecision?.paramDtype === paramDtype ? true : undefined));
}

/** With a pipeline, all microbatches of a rank are one pass; without a pipeline, each microbatch is a pass of the step. */
function microbatch({ value, other }: KeyInput): Translation {
  const micro = wholeOf(value);
  const [pp, global] = [wholeOf(other('pipeline_model_parallel_size') ?? 1), other('global_batch_size')];
  if (pp === 1 || global === undefined) return { sets: { batch: micro } };
  return { place: { microRows: micro }, why: `rows per microbatch of the pipeline: ${micro}` };
}

/** Returns the number of rows of all ranks per step. */
function globalBatch({ config, machines, ranksPerMachine }: Exported): number {
  return config.batch * config.accumulation * dataRanksOf(config, machines * ranksPerMachine);
}

/** Returns the row of a number that belongs to the optimizer or the schedule; `write` decides if an export has the number. */
function numberRow(path: string, write: Write, convert: Convert = number): KeyRow {
  return both(
    decides(path, (input) => ({ sets: { [path]: convert(input.value, input) } })),
    write,
  );
}

const isSgd = ({ config }: Exported): boolean => config.optimizer.kind === 'sgd';

/** Returns the row of one of Adam's two betas; `usual` is the default of the second beta. */
export const beta = (index: 0 | 1, usual = 0.999): KeyRow =>
  both(
    decides('optimizer.betas', ({ value, other }) => {
      const betas = [numberOf(other('adam_beta1') ?? 0.9), numberOf(other('adam_beta2') ?? usual)];
      betas[index] = numberOf(value);
      return { sets: { 'optimizer.betas': betas } };
    }),
    (exported) => (isSgd(exported) ? undefined : exported.config.optimizer.betas[index]),
  );

const STYLES = { constant: 'constant', linear: 'linear', cosine: 'cosine', WSD: 'wsd' } as const;

/** Returns an export's name for the kind of a schedule; WarmupCosineLR is written as a cosine. */
function styleOf({ config: { schedule } }: Exported): string {
  const kind = schedule?.kind ?? 'constant';
  return wordOf<string>(STYLES, kind === 'WarmupCosineLR' ? 'cosine' : kind) ?? 'constant';
}

/** Returns a `write` that gives a value only if the schedule ends. */
const ofEnding =
  (write: (schedule: ScheduleConfig, exported: Exported) => unknown): Write =>
  (exported) => {
    const { schedule } = exported.config;
    return schedule === null || schedule.kind === 'constant' ? undefined : write(schedule, exported);
  };

const ofWsd = (write: (schedule: ScheduleConfig, exported: Exported) => unknown): Write =>
  ofEnding((schedule, exported) => (schedule.kind === 'wsd' ? write(schedule, exported) : undefined));

const WSD_DECAYS = { linear: 'linear', cosine: 'cosine', minus_sqrt: '1-sqrt' } as const;

const SCHEDULE: KeyTable = {
  lr_decay_style: both(
    decides('schedule.kind', ({ value, other }) => {
      const kind = word(STYLES)(value);
      const isExponential = kind === 'wsd' && other('lr_wsd_decay_style') === undefined;
      return {
        sets: { 'schedule.kind': kind },
        ...(isExponential && {
          effect: 'warning',
          why: 'schedule.kind: wsd; in Megatron-LM, the rate falls exponentially unless --lr-wsd-decay-style says otherwise; here, it falls as schedule.decayType says',
        }),
      };
    }),
    styleOf,
  ),
  lr_decay_iters: numberRow(
    'schedule.maxSteps',
    ofEnding(({ maxSteps }, { config }) => maxSteps ?? config.steps),
    whole,
  ),
  lr_warmup_iters: numberRow(
    'schedule.warmupSteps',
    ({ config }) => config.schedule?.warmupSteps,
    wholeFromZero,
  ),
  lr_warmup_fraction: decides('schedule.warmupSteps', ({ value, other }) => {
    const steps = other('lr_decay_iters') ?? other('train_iters');
    return typeof steps === 'number'
      ? { sets: { 'schedule.warmupSteps': Math.ceil(numberOf(value) * steps) } }
      : {
          effect: 'warning',
          why: 'is a share of the steps, and no line has the number of steps; write schedule.warmupSteps',
        };
  }),
  min_lr: numberRow(
    'schedule.etaMin',
    ofEnding(({ etaMin }) => etaMin),
  ),
  lr_wsd_decay_iters: numberRow(
    'schedule.decaySteps',
    ofWsd((schedule, { config }) => decayStepsOf(schedule, config.steps)),
    whole,
  ),
  lr_wsd_decay_style: both(
    decides('schedule.decayType', ({ value }) =>
      String(value) === 'exponential'
        ? {
            effect: 'refused',
            why: 'the rate falls by a cosine, a line or a root here; write schedule.decayType',
          }
        : { sets: { 'schedule.decayType': word(WSD_DECAYS)(value) } },
    ),
    ofWsd(({ decayType }) => wordOf<string>(WSD_DECAYS, decayType)),
  ),
};

/** Returns a `write` that gives the loss scaler's setting `key`, if the config has a loss scaler. */
const ofScaler =
  (key: 'initScale' | 'growthInterval'): Write =>
  ({ config }) =>
    gradScalerOf(config)?.[key];

const TRAINING: KeyTable = {
  ...settingKeys('megatron', {
    batch: {
      micro_batch_size: both(decides('batch', microbatch), ({ config }) =>
        config.parallel.pp > 1 ? config.batch / microbatchesOf(config) : config.batch,
      ),
    },
    clipNorm: { clip_grad: settingBoth('clipNorm', clip, (norm) => norm ?? 0) },
  }),
  rampup_batch_size: refused('the number of rows per step stays the same here'),
  global_batch_size: both(
    place('rows of all ranks per step', (value) => ({ globalBatch: wholeOf(value) })),
    globalBatch,
  ),
  train_iters: settingBoth('steps', whole),
  ...settingKeys('torch', {
    'optimizer.lr': { lr: settingBoth('optimizer.lr', number) },
    'optimizer.weightDecay': { weight_decay: weightDecayRow('Megatron-LM') },
  }),
  seed: settingBoth('seed', wholeFromZero),
  optimizer: both(
    decides('optimizer.kind', ({ value }) =>
      ['adam', 'sgd'].includes(String(value))
        ? { sets: { 'optimizer.kind': value === 'adam' ? 'adamW' : 'sgd' } }
        : { effect: 'refused', why: `there is no optimizer ${String(value)} here; choose adam or sgd` },
    ),
    (exported) => (isSgd(exported) ? 'sgd' : 'adam'),
  ),
  adam_beta1: beta(0),
  adam_beta2: beta(1),
  adam_eps: numberRow('optimizer.eps', (exported) =>
    isSgd(exported) ? undefined : exported.config.optimizer.eps,
  ),
  sgd_momentum: numberRow('optimizer.momentum', (exported) =>
    isSgd(exported) ? exported.config.optimizer.momentum : undefined,
  ),
  ...SCHEDULE,
  bf16: half('bfloat16'),
  fp16: half('float16'),
  initial_loss_scale: numberRow('gradScaler.initScale', ofScaler('initScale')),
  loss_scale_window: numberRow('gradScaler.growthInterval', ofScaler('growthInterval'), whole),
  attention_dropout: place('dropout; only a plan takes it into account', (value) => ({
    dropout: numberOf(value) > 0,
  })),
  hidden_dropout: place('dropout; only a plan takes it into account', (value) => ({
    dropout: numberOf(value) > 0,
  })),
};

const WITHOUT_EFFECT: KeyTable = {
  ...allNone(
    'batches are source code or your own files: write data',
    'data_path split mock_data data_cache_path num_workers dataloader_type reset_position_ids reset_attention_mask eod_mask_loss',
  ),
  ...allNone(
    'write data.tokenizer with your own files',
    'tokenizer_type tokenizer_model vocab_file merge_file',
  ),
  ...allNone(
    'run.step saves, and run.load reads',
    'save load save_interval ckpt_format finetune no_load_optim no_load_rng no_save_optim no_save_rng dist_ckpt_strictness async_save exit_interval exit_duration_in_mins',
  ),
  ...allNone(
    'run.log writes every step',
    'log_interval log_throughput log_params_norm log_num_zeros_in_grad log_timers_to_tensorboard tensorboard_dir tensorboard_log_interval tensorboard_queue_size wandb_project wandb_exp_name wandb_save_dir timing_log_level',
  ),
  ...allNone('run.evaluate evaluates', 'eval_iters eval_interval'),
  ...allNone(
    OVERLAP,
    'overlap_grad_reduce overlap_param_gather tp_comm_overlap overlap_p2p_communication no_overlap_p2p_communication overlap_param_gather_with_optimizer_step',
  ),
  ...allNone(
    'kernels are fused here in any case',
    'no_gradient_accumulation_fusion no_masked_softmax_fusion no_bias_gelu_fusion no_bias_swiglu_fusion no_rope_fusion no_bias_dropout_fusion cross_entropy_loss_fusion cross_entropy_fusion_impl attention_softmax_in_fp32 accumulate_allreduce_grads_in_fp32 transformer_impl use_mcore_models manual_gc manual_gc_interval empty_unused_memory_level apply_layernorm_1p',
  ),
  ...allNone(
    'jobs here have collectives of their own',
    'distributed_backend distributed_timeout_minutes local_rank use_cpu_initialization ddp_bucket_size',
  ),
  ...allNone(
    'parallel.ep divides the experts here, and model.router chooses them',
    'moe_router_load_balancing_type moe_token_dispatcher_type moe_grouped_gemm moe_permute_fusion expert_tensor_parallel_size moe_pad_expert_input_to_capacity',
  ),
};

/** The arguments in this file that have no value. */
const FLAGS = new Set(
  'no_gradient_accumulation_fusion no_masked_softmax_fusion no_bias_gelu_fusion no_bias_swiglu_fusion no_rope_fusion no_bias_dropout_fusion cross_entropy_loss_fusion attention_softmax_in_fp32 accumulate_allreduce_grads_in_fp32 use_mcore_models manual_gc apply_layernorm_1p overlap_grad_reduce overlap_param_gather tp_comm_overlap no_overlap_p2p_communication mock_data finetune no_load_optim no_load_rng no_save_optim no_save_rng async_save log_throughput log_params_norm log_num_zeros_in_grad log_timers_to_tensorboard use_cpu_initialization moe_grouped_gemm moe_permute_fusion distribute_saved_activations'.split(
    ' ',
  ),
);

export const MEGATRON_KEYS: KeyTable = Object.fromEntries(
  Object.entries({ ...MEGATRON_OTHER, ...MODEL, ...PARALLEL, ...TRAINING, ...WITHOUT_EFFECT }).map(
    ([key, row]) => [key, FLAGS.has(key) ? flag(row) : row],
  ),
);

/** The defaults of the loss scaler for float16. Source: megatron/training/arguments.py. */
const SCALER = { 'gradScaler.initScale': 2 ** 32, 'gradScaler.growthInterval': 1000 };

/** Keys with which stages may have different numbers of layers. Source: megatron/training/arguments.py, validate_args. */
const UNEVEN = [
  'decoder_first_pipeline_num_layers',
  'decoder_last_pipeline_num_layers',
  'account_for_embedding_in_pipeline_split',
  'account_for_loss_in_pipeline_split',
  'pipeline_model_parallel_layout',
  'hybrid_layer_pattern',
];

/** Finds what makes Megatron-LM stop before the training. Source: megatron/training/arguments.py, validate_args. */
function checks(other: KeyInput['other']): readonly Finding[] {
  const found: Finding[] = [];
  const stops = (key: string, why: string): void =>
    void found.push({ key, effect: 'error', why: `Megatron-LM stops: ${why}` });
  const [layers, pp] = [Number(other('num_layers')), Number(other('pipeline_model_parallel_size') ?? 1)];
  if (layers % pp > 0 && !UNEVEN.some((key) => other(key) !== undefined))
    stops(
      'num_layers',
      `${layers} layers should be divisible by --pipeline-model-parallel-size ${pp}; change one of them, or give --decoder-first-pipeline-num-layers`,
    );
  if (yesOf(other('fp16') ?? false) && yesOf(other('bf16') ?? false))
    stops('fp16', '--fp16 and --bf16 are both given; give one of them');
  const [positions, seq] = [Number(other('max_position_embeddings')), Number(other('seq_length'))];
  if (positions < seq)
    stops('max_position_embeddings', `${positions} positions are fewer than --seq-length ${seq}`);
  return found;
}

/** Returns the program that trains: with torch's FSDP 2 or Megatron-FSDP, the strategy is FSDP's. */
export function megatronStack(other: KeyInput['other']): Stack {
  const isFsdp = ['use_torch_fsdp2', 'use_megatron_fsdp', 'use_custom_fsdp'].some((key) =>
    yesOf(other(key) ?? false),
  );
  return isFsdp ? 'fsdp2' : 'megatron';
}

/** The default of --moe-router-topk. Source: megatron/core/transformer/transformer_config.py. */
const TWO_EXPERTS = { 'model.router': 'topk', 'model.topK': 2 };

/** Returns the defaults of Megatron-LM's arguments; `router` is how it chooses experts. */
export function megatronDefaults(other: KeyInput['other'], router: Patch = TWO_EXPERTS): Translation {
  return {
    usual: {
      ...(other('num_layers') !== undefined && {
        'model.kind': isLlama(other) ? 'llama' : 'gpt',
        'model.vocab': 51_200,
        'model.tied': true,
        'model.attention': other('transformer_impl') === 'local' ? 'eager' : 'flash',
      }),
      ...(isMoe(other) && router),
      'parallel.strategy': 'NO_SHARD',
      'optimizer.weightDecay': 0.01,
      ...(other('optimizer') === 'sgd' && { 'optimizer.momentum': 0.9 }),
      ...(other('fp16') !== undefined && yesOf(other('fp16')) && SCALER),
      'schedule.kind': 'linear',
      seed: 1234,
    },
    why: "Megatron-LM's defaults, and GPT-2's vocabulary as Megatron-LM pads it",
  };
}

/** The dialect of the arguments of Megatron-LM's pretrain_gpt.py. */
export const MEGATRON: Dialect = {
  name: 'Megatron-LM',
  keys: { ...MEGATRON_REST, ...MEGATRON_KEYS },
  checks,
  stack: megatronStack,
  usual: (other) => megatronDefaults(other),
};
