import {
  decides,
  isNothing,
  type KeyInput,
  type KeyRow,
  type KeyTable,
  none,
  OVERLAP,
  place,
  refused,
  section,
  settingKeys,
  type Translation,
  warned,
} from '../rows/key-row';
import type { Dialect, Finding } from '../rows/meant';
import { clip, float, floatOf, strategyOfStage, whole, wholeOf, yes, yesOf } from '../rows/values';
import { BF16, FP16, OPTIMIZER, SCHEDULER } from './deepspeed-training';
import { offloadDevice } from './offload-device';

const stageOf = (other: KeyInput['other']): number => Number(other('zero_optimization.stage') ?? 0);

/** Returns the row of a switch for offloading that older versions of DeepSpeed have. */
function oldOffload(path: 'offload.optimizer' | 'offload.parameters'): KeyRow {
  const row = offloadDevice(path, stageOf);
  return { ...row, mean: (input) => row.mean({ ...input, value: yesOf(input.value) ? 'cpu' : 'none' }) };
}

const HOST = 'how values travel between host and device; both are one memory here';

const offloadParts = (path: 'offload.optimizer' | 'offload.parameters'): KeyTable => ({
  device: offloadDevice(path, stageOf),
  nvme_path: none('offloaded states are in the memory of the host here'),
  buffer_count: none(HOST),
  buffer_size: none(HOST),
  max_in_cpu: none(HOST),
  pin_memory: none(HOST),
  pipeline: none(HOST),
  pipeline_read: none(HOST),
  pipeline_write: none(HOST),
  fast_init: none(HOST),
  super_offload: none(HOST),
  cpuadam_cores_perc: none(HOST),
  ratio: none('all optimizer states are offloaded here, or none'),
});

const BUCKETS = 'how gradients are collected into messages; here each unit is a message';
const FETCH =
  'when parameters are gathered and freed; here parallel.wrap and prefetching decide this for each unit';
const SAVING = 'checkpoints here are sharded; run.savePretrained writes whole parameters';
const QUANTIZED = 'messages here have the dtypes of mixedPrecision, unless parallel.commHook compresses them';

/** Keys that may also have the prefix stage3_ for ZeRO-3. */
const FETCH_KEYS = [
  'prefetch_bucket_size',
  'param_persistence_threshold',
  'model_persistence_threshold',
  'max_live_parameters',
  'max_reuse_distance',
  'module_granularity_threshold',
  'use_all_reduce_for_fetch_params',
  'allgather_sequential',
];

/** The keys of the section zero_optimization. */
const ZERO: KeyTable = {
  ...settingKeys('deepSpeed', {
    'parallel.strategy': { stage: strategyOfStage },
    'parallel.reshardAfterForward': {
      zero_hpz_partition_size: decides('parallel.reshardAfterForward', ({ value }) => {
        const ranks = wholeOf(value);
        return ranks === 1
          ? { effect: 'none', why: 'parameters are gathered from all ranks' }
          : {
              sets: { 'parallel.reshardAfterForward': ranks },
              why: 'backward gathers parameters within this number of ranks',
            };
      }),
    },
  }),
  offload_param: section(offloadParts('offload.parameters')),
  offload_optimizer: section(offloadParts('offload.optimizer')),
  cpu_offload: oldOffload('offload.optimizer'),
  cpu_offload_param: oldOffload('offload.parameters'),
  cpu_offload_use_pin_memory: none(HOST),
  zenflow: refused(
    'ZenFlow updates important gradients first; the nearest setting here is optimizer.delayedUpdate',
  ),
  contiguous_gradients: none('gradients of a unit are one buffer here in any case'),
  reduce_scatter: none('sharded gradients are reduced and scattered here in any case'),
  reduce_bucket_size: none(BUCKETS),
  allgather_bucket_size: none(BUCKETS),
  use_multi_rank_bucket_allreduce: none(BUCKETS),
  allgather_partitions: none('updated parameters are gathered by one collective per unit here'),
  overlap_comm: none(OVERLAP),
  compute_grad_norm: none('the norm of gradients is computed here in any case'),
  load_from_fp32_weights: none('master parameters are float32 here in any case'),
  elastic_checkpoint: none('any number of ranks reads a checkpoint here'),
  sub_group_size: none('the optimizer updates a whole unit in one pass here'),
  ...Object.fromEntries(
    FETCH_KEYS.flatMap((key) => [
      [key, none(FETCH)],
      [`stage3_${key}`, none(FETCH)],
    ]),
  ),
  gather_16bit_weights_on_model_save: none(SAVING),
  stage3_gather_16bit_weights_on_model_save: none(SAVING),
  stage3_gather_fp16_weights_on_model_save: none(SAVING),
  ignore_unused_parameters: none('parameters without a gradient stay as they are here'),
  legacy_stage1: none('stage 1 has one implementation here'),
  round_robin_gradients: none('one rank after the other copies its part of the gradients here'),
  parameter_alignment: none('buffers are aligned here in any case'),
  zero_quantized_weights: refused(QUANTIZED),
  zero_quantized_nontrainable_weights: refused(QUANTIZED),
  zero_quantized_gradients: refused(QUANTIZED),
  mics_shard_size: warned(
    'DeepSpeed has removed it; write parallel.strategy HYBRID_SHARD with parallel.mesh',
  ),
  mics_hierarchical_params_gather: warned('DeepSpeed has removed it'),
  zeropp_loco_param: warned('DeepSpeed has removed it'),
  memory_efficient_linear: none('the backward of a linear layer stores no copy of its weight here'),
  pipeline_loading_checkpoint: none('each rank reads its own chunks here'),
  override_module_apply: none('initial values are made chunk by chunk here'),
  log_trace_cache_warnings: none('the order of units is fixed here'),
  enable_sanity_checks: none('every collective is compared between ranks here in any case'),
  save_muon_momentum_buffer_in_memory: none('there is no optimizer Muon here'),
  leaf_module: none('parallel.wrap decides the units'),
};

// DeepSpeed's JSON. Source: deepspeed's runtime/config.py and the classes that it uses.

const ELSEWHERE = 'measures or logs; here, ledgers and figures do this';
const REMOVED = 'current versions of DeepSpeed refuse it: it has been removed';

const CHECKPOINTS =
  'says how activations are stored; the script decides which layers run again, and activationCheckpointing decides this here';

const ACTIVATIONS: KeyTable = {
  cpu_checkpointing: decides('offload.activations', ({ value }) => ({
    sets: { 'offload.activations': yesOf(value) },
  })),
  partition_activations: none(CHECKPOINTS),
  contiguous_memory_optimization: none(CHECKPOINTS),
  number_checkpoints: none(CHECKPOINTS),
  synchronize_checkpoint_boundary: none(CHECKPOINTS),
  profile: none(ELSEWHERE),
};

const DATA_TYPES: KeyTable = {
  grad_accum_dtype: none('gradients are added up in float32 here'),
  param_dtype: decides('mixedPrecision.paramDtype', (input) =>
    isNothing(input.value)
      ? { effect: 'none', why: 'is not given' }
      : { sets: { 'mixedPrecision.paramDtype': float(input.value, input) } },
  ),
  buffer_dtype: decides('mixedPrecision.bufferDtype', (input) =>
    isNothing(input.value)
      ? { effect: 'none', why: 'is not given' }
      : { sets: { 'mixedPrecision.bufferDtype': float(input.value, input) } },
  ),
  keep_in_fp32_modules: none('buffers are float32 here'),
};

/** A document that was checked here has the key `ulysses`, which DeepSpeed lacks; the key is read as the document explains it. */
const ULYSSES =
  'DeepSpeed has no key ulysses and ignores it; sequence parallelism there is UlyssesSPAttentionHF in the script, with sequence_parallel_size';

function ulysses({ value, key }: KeyInput): Translation {
  if (key === 'enabled') return { effect: 'warning', why: ULYSSES };
  const cp = wholeOf(value);
  return {
    sets: { 'parallel.cp': cp, 'parallel.cpKind': 'ulysses' },
    effect: 'warning',
    why: `${ULYSSES}; the line is read as parallel.cp ${cp} with cpKind ulysses`,
  };
}

/** Returns the meaning of the dtype in which gradients are sent; without a scale, gradients do not fit into float16's range. */
function messages({ value, other }: KeyInput): Translation {
  if (isNothing(value)) return { effect: 'none', why: 'is not given' };
  const dtype = floatOf(value);
  const sets = { 'parallel.communicationDataType': dtype };
  if (dtype !== 'float16' || other('fp16.enabled') === true) return { sets };
  const gradients = other('bf16.enabled') === true ? 'bfloat16' : 'float32';
  return {
    sets,
    effect: 'warning',
    why:
      `contradicts ${gradients} gradients: they are rounded to float16 for the reduction, so values below 6e-8 become 0 and values above 65504 become infinite; ` +
      `without fp16.enabled, no scale prevents this; write ${gradients === 'float32' ? 'fp32' : 'bf16'}, or leave this key out`,
  };
}

const BATCH: KeyTable = {
  train_batch_size: place('rows of all ranks per step', (value) => ({ globalBatch: wholeOf(value) })),
  ...settingKeys('deepSpeed', {
    batch: whole,
    accumulation: whole,
    clipNorm: clip,
    'parallel.communicationDataType': {
      communication_data_type: decides('parallel.communicationDataType', messages),
    },
    'parallel.sparseGradients': yes,
    'data.dropLast': {
      dataloader_drop_last: none(
        'the built-in data leaves no incomplete batch; write data.dropLast with your own data',
      ),
    },
    'parallel.cp': { sequence_parallel_size: whole },
  }),
  managed_gradient_accumulation: none('the setting accumulation is the number of passes per step here'),
  seq_parallel_communication_data_type: none(
    'a sequence-parallel group reduces in the dtype of mixedPrecision here',
  ),
  prescale_gradients: none('gradients are averaged in the reduction here'),
  gradient_predivide_factor: none('gradients are averaged in the reduction here'),
  gradient_allreduce_op: refused('gradients are averaged here', (value) => value === 'mean'),
  disable_allgather: none('updated parameters are gathered by one collective per unit here'),
};

const SECTIONS: KeyTable = {
  zero_optimization: section(ZERO),
  optimizer: section(OPTIMIZER),
  scheduler: section(SCHEDULER),
  bf16: section(BF16),
  bfloat16: section(BF16),
  fp16: section(FP16),
  activation_checkpointing: section(ACTIVATIONS),
  data_types: section(DATA_TYPES),
  ulysses: section({ enabled: decides('parallel.cpKind', ulysses), size: decides('parallel.cp', ulysses) }),
  tensor_parallel: section({
    ...settingKeys('deepSpeed', {
      'parallel.tp': { autotp_size: (value) => Math.max(1, wholeOf(value, 0)) },
    }),
    ...Object.fromEntries(
      [
        'dtype',
        'tp_overlap_comm',
        'vocab_parallel_lm_head',
        'vocab_parallel_ce_backend',
        'tensor_parallel',
        'tp',
        'injection_policy_tuple',
        'partition_config',
        'preset_model',
        'keep_module_on_host',
        'replace_with_kernel_inject',
        'kernel_inject',
        'injection_policy',
      ].map((key) => [key, none('parallel.tp divides all matrices of a block here')]),
    ),
  }),
  expert_parallel: refused('experts of a model are divided by parallel.ep here'),
  pipeline: none('write parallel.pp; DeepSpeed takes the number of stages from its PipelineModule'),
  compile: {
    ...place('the model is compiled', () => ({})),
    mean: ({ value }) => {
      const isOn =
        typeof value === 'object' && value !== null && 'deepcompile' in value && yesOf(value.deepcompile);
      return isOn
        ? { place: { compile: true }, why: 'only a plan takes this into account' }
        : { effect: 'none', why: 'the model is not compiled' };
    },
  },
  torch_autocast: none('write mixedPrecision { paramDtype, reduceDtype: fp32 } under NO_SHARD'),
};

const OTHER: KeyTable = {
  comms_config: warned('DeepSpeed does not read it; its key is comms_logger'),
  ...Object.fromEntries(
    [
      'wall_clock_breakdown',
      'memory_breakdown',
      'steps_per_print',
      'dump_state',
      'flops_profiler',
      'comms_logger',
      'monitor_config',
      'tensorboard',
      'wandb',
      'csv_monitor',
      'comet',
      'timers',
      'log_level',
    ].map((key) => [key, none(ELSEWHERE)]),
  ),
  ...Object.fromEntries(
    [
      'amp',
      'nebula',
      'compression_training',
      'quantize_training',
      'eigenvalue',
      'sparse_attention',
      'elasticity',
      'graph_harvesting',
      'curriculum_learning',
      'progressive_layer_drop',
    ].map((key) => [key, warned(REMOVED)]),
  ),
  zero_allow_untested_optimizer: none('every optimizer works with every strategy here'),
  zero_force_ds_cpu_optimizer: none('the same optimizer updates offloaded states here'),
  allgather_size: none('updated parameters are gathered by one collective per unit here'),
  aio: none('nothing is written to NVMe here'),
  autotuning: none('shardlab recommend searches layouts'),
  checkpoint: none('checkpoints here are sharded, and any number of ranks reads them'),
  checkpoint_engine: none('checkpoints here are sharded, and any number of ranks reads them'),
  datastates_ckpt: none('checkpoints here are sharded, and any number of ranks reads them'),
  data_efficiency: refused('data is sampled as DistributedSampler does here'),
  disable_python_gc: none('ranks here are not Python processes'),
  hybrid_engine: refused('generation during training is run.sample here'),
  vocabulary_size: none('DeepSpeed only checks that it suits the size of tensor cores'),
  use_data_before_expert_parallelism: none('the order of ranks is tp, cp, dp, pp here'),
  weight_quantization: refused('weights are not quantized here'),
};

const checks: Dialect['checks'] = (other): Finding[] => {
  const isOn = (key: string): boolean => other(key) === true;
  const found: Finding[] = [];
  if (isOn('fp16.enabled') && isOn('bf16.enabled'))
    found.push({
      key: 'fp16.enabled',
      effect: 'error',
      why: 'is true, and bf16.enabled too; DeepSpeed takes only one of them',
    });
  return found;
};

/** DeepSpeed's JSON. */
export const DEEPSPEED: Dialect = {
  name: 'DeepSpeed',
  stack: () => 'deepspeed',
  keys: { ...BATCH, ...SECTIONS, ...OTHER },
  ignoresOthers: true,
  auto: "is filled in by transformers' Trainer or Accelerate from their own arguments; here, another line sets it, or the setting has its default",
  usual: (other) =>
    other('stage') === undefined && other('zero_optimization') === undefined
      ? {
          usual: { 'parallel.strategy': 'NO_SHARD' },
          why: 'without zero_optimization, nothing is sharded (stage 0)',
        }
      : null,
  checks,
};
