import {
  decides,
  isNothing,
  type KeyInput,
  type KeyTable,
  none,
  place,
  refused,
  section,
  settingKeys,
  type Translation,
  warned,
} from '../rows/key-row';
import type { Dialect, Finding } from '../rows/meant';
import { clip, float, floatOf, whole, wholeOf, yes, yesOf } from '../rows/values';
import { BF16, FP16, OPTIMIZER, SCHEDULER } from './deepspeed-training';
import { ZERO } from './deepspeed-zero';

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
