import {
  allNone,
  decides,
  exported,
  flag,
  flags,
  type KeyInput,
  type KeyTable,
  none,
  place,
  refused,
  section,
  settingKeys,
  type Translation,
  wrongValue,
} from '../rows/key-row';
import type { Dialect, Finding } from '../rows/meant';
import { clip, numberOf, whole, wholeOf, word, yes, yesOf } from '../rows/values';
import { ACCELERATE_FSDP } from './accelerate-fsdp';
import {
  accelerateStack,
  DEEPSPEED_KEYS,
  DYNAMO,
  DYNAMO_KEYS,
  distributedType,
  FP8_KEYS,
  MPI,
  OFF_GPU,
  RESOURCES,
  readWith,
  SAGEMAKER,
  SAGEMAKER_KEYS,
  TPU,
} from './accelerate-keys';

/** A pipeline divides a pass into microbatches; without a pipeline, each microbatch is a pass of its own. */
function microbatches({ value, other }: KeyInput): Translation {
  const count = wholeOf(value);
  return Number(other('megatron_lm_pp_degree') ?? 1) > 1
    ? { sets: { 'parallel.microbatches': count }, usual: { batch: count } }
    : { sets: { accumulation: count }, why: 'without a pipeline, microbatches are passes of a step' };
}

const dropout = place('dropout; only a plan takes it into account', (value) => ({
  dropout: numberOf(value) > 0,
}));
const LOADING = 'checkpoints here store the optimizer, and run.load reads it';
const RECOMPUTED = 'whole blocks run again here';

/** Keys of Accelerate's plugin for Megatron-LM. */
const ACCELERATE_MEGATRON: KeyTable = {
  ...settingKeys('accelerate', {
    'parallel.tp': { megatron_lm_tp_degree: whole },
    'parallel.pp': { megatron_lm_pp_degree: whole },
    'parallel.cp': {
      megatron_lm_context_parallel_size: decides('parallel.cp', ({ value }) => ({
        sets: { 'parallel.cp': wholeOf(value), ...(wholeOf(value) > 1 && { 'parallel.cpKind': 'ring' }) },
      })),
    },
    'parallel.ep': { megatron_lm_expert_model_parallel_size: whole },
    'parallel.microbatches': {
      megatron_lm_num_micro_batches: decides('parallel.microbatches', microbatches),
    },
    'parallel.sequenceParallel': { megatron_lm_sequence_parallelism: yes },
    'parallel.strategy': {
      megatron_lm_use_distributed_optimizer: (value) => (yesOf(value) ? 'ZERO_1' : 'NO_SHARD'),
    },
    'offload.optimizer': { megatron_lm_optimizer_cpu_offload: yes },
    clipNorm: { megatron_lm_gradient_clipping: clip },
    activationCheckpointing: {
      megatron_lm_recompute_activations: (value) => (yesOf(value) ? 'selective' : null),
      megatron_lm_recompute_granularity: (value) =>
        value === null ? undefined : word({ full: 'full', selective: 'selective' })(value),
    },
  }),
  megatron_lm_attention_dropout: dropout,
  megatron_lm_hidden_dropout: dropout,
  megatron_lm_use_custom_fsdp: none('FSDP is a strategy of its own here: parallel.strategy FULL_SHARD'),
  megatron_lm_no_load_optim: none(LOADING),
  megatron_lm_no_save_optim: none(LOADING),
  megatron_lm_eod_mask_loss: none('the loss counts all tokens here'),
  megatron_lm_overlap_cpu_optimizer_d2h_h2d: none('the device is the memory of the CPU here'),
  megatron_lm_use_precision_aware_optimizer: none(
    "optimizer states are float32 here, or 8-bit with optimizer.kind 'adamW8bit'",
  ),
  megatron_lm_decoder_last_pipeline_num_layers: none('write the layers per stage as parallel.stageSplit'),
  megatron_lm_recompute_method: none(RECOMPUTED),
  megatron_lm_recompute_num_layers: none(RECOMPUTED),
  megatron_lm_attention_backend: none("write model.attention 'flash' or 'eager'"),
  megatron_lm_attention_softmax_in_fp32: none('softmax is float32 here in any case'),
  megatron_lm_expert_tensor_parallel_size: none('parallel.tp divides experts like other layers here'),
  megatron_lm_calculate_per_token_loss: none('the loss is the mean over tokens here'),
  megatron_lm_use_rotary_position_embeddings: none(
    "the model's kind decides: llama has rotary positions, gpt learned ones",
  ),
};

function checks(other: KeyInput['other']): readonly Finding[] {
  const file = other('deepspeed_config_file');
  const beside = [
    'zero_stage',
    'gradient_accumulation_steps',
    'gradient_clipping',
    'offload_optimizer_device',
    'offload_param_device',
  ];
  if (file === undefined) return [];
  return beside
    .filter((key) => other(key) !== undefined)
    .map((key) => ({
      key,
      effect: 'error',
      why: `Accelerate refuses it beside deepspeed_config_file; write it into ${String(file)}`,
    }));
}

/** Finds values that make Accelerate stop if a file has them. A quoted 'false' in a file is a text, not a truth value. */
const fileChecks: Dialect['checks'] = (other): Finding[] => {
  const found = [...checks(other)];
  const stops = (key: string, why: string): void => void found.push({ key, effect: 'error', why });
  const isFsdp = String(other('distributed_type')) === 'FSDP';
  const isFalse = (key: string): boolean => other(key) === false;
  if (isFsdp && isFalse('fsdp_sync_module_states') && !isFalse('fsdp_cpu_ram_efficient_loading'))
    stops(
      'fsdp_sync_module_states',
      'Accelerate stops: fsdp_cpu_ram_efficient_loading needs this key, and is true by default; write true here, or false for both keys',
    );
  if (
    other('fsdp_activation_checkpointing_offload') === true &&
    other('fsdp_activation_checkpointing') !== true
  )
    stops(
      'fsdp_activation_checkpointing_offload',
      'Accelerate stops: it needs fsdp_activation_checkpointing: true',
    );
  return found;
};

/** Reports a file without distributed_type (the kind of training) as an error, because Accelerate does not start with it. */
const fileUsual: Dialect['usual'] = (other) =>
  other('distributed_type') === undefined
    ? {
        effect: 'error',
        why: 'Accelerate stops at a file without distributed_type; write distributed_type: NO, MULTI_GPU, FSDP, DEEPSPEED or MEGATRON_LM',
      }
    : null;

function computeEnvironment({ value }: KeyInput): Translation {
  if (value === 'LOCAL_MACHINE')
    return { effect: 'none', why: 'machines are started by hand or by a scheduler, as by default' };
  if (value === 'AMAZON_SAGEMAKER') return { effect: 'refused', why: SAGEMAKER };
  throw wrongValue(value, 'LOCAL_MACHINE (also for Slurm) or AMAZON_SAGEMAKER');
}

const UNDER_DEEPSPEED = readWith('DEEPSPEED', DEEPSPEED_KEYS);
const UNDER_FSDP = readWith('FSDP', ACCELERATE_FSDP.fsdp);
const UNDER_MEGATRON = readWith('MEGATRON_LM', ACCELERATE_MEGATRON);

/** The dialect of the YAML that `accelerate config` writes. */
export const ACCELERATE: Dialect = {
  name: 'Accelerate',
  stack: accelerateStack,
  keys: {
    ...RESOURCES,
    ...TPU,
    ...SAGEMAKER_KEYS,
    ...settingKeys('accelerate', {
      'parallel.strategy': { distributed_type: decides('parallel.strategy', distributedType) },
    }),
    compute_environment: { ...refused(SAGEMAKER), mean: computeEnvironment },
    use_cpu: none('ranks run on CPUs here; a plan is for GPUs'),
    fp16: none('is the old form of mixed_precision: fp16'),
    dynamo_backend: DYNAMO_KEYS.dynamo_backend ?? none(DYNAMO),
    deepspeed_config: section(UNDER_DEEPSPEED),
    fsdp_config: section(UNDER_FSDP),
    parallelism_config: section(ACCELERATE_FSDP.parallelism),
    megatron_lm_config: section(UNDER_MEGATRON),
    dynamo_config: section(DYNAMO_KEYS),
    fp8_config: section(FP8_KEYS),
    mpirun_config: section(MPI),
  },
  prefixes: { fsdp_config: 'fsdp_', dynamo_config: 'dynamo_', fp8_config: 'fp8_' },
  ignoresWithin: true,
  checks: fileChecks,
  usual: fileUsual,
};

/** The dialect of the file for transformers' --fsdp_config, which has the keys of Accelerate's section. */
export const FSDP_CONFIG: Dialect = {
  name: "transformers' fsdp_config",
  keys: {
    ...ACCELERATE_FSDP.fsdp,
    ...settingKeys('fsdp', { 'parallel.limitAllGathers': yes }),
    ...allNone('Accelerate uses it on TPUs only', 'xla xla_fsdp_v2 xla_fsdp_settings xla_fsdp_grad_ckpt'),
  },
  prefixes: { '': 'fsdp_' },
};

/** Flags of `accelerate launch` that choose the kind of training. */
const KINDS: KeyTable = flags({
  cpu: none('ranks run on CPUs here; a plan is for GPUs'),
  multi_gpu: decides('parallel.strategy', () => ({ usual: { 'parallel.strategy': 'NO_SHARD' } })),
  tpu: refused(OFF_GPU),
  use_deepspeed: decides('parallel.strategy', distributedType),
  use_fsdp: decides('parallel.strategy', distributedType),
  use_megatron_lm: decides('parallel.strategy', distributedType),
  use_parallelism_config: none('the keys of parallelism_config are used in any case'),
});

const LOGS = 'where the processes of the launcher write their output';

/** The arguments of `accelerate launch`, which replace the values of its config file. */
export const ACCELERATE_LAUNCH: Dialect = {
  name: 'accelerate launch',
  stack: accelerateStack,
  keys: {
    ...RESOURCES,
    ...KINDS,
    ...UNDER_DEEPSPEED,
    ...UNDER_FSDP,
    ...ACCELERATE_FSDP.parallelism,
    ...UNDER_MEGATRON,
    ...DYNAMO_KEYS,
    ...FP8_KEYS,
    ...MPI,
    tpu_use_sudo: flag(refused(OFF_GPU)),
    ...flags({
      tpu_cluster: refused(OFF_GPU),
      no_tpu_cluster: none('is the default'),
      tpu_use_cluster: refused(OFF_GPU),
    }),
    vm: refused(OFF_GPU),
    env: refused(OFF_GPU),
    config_file: {
      ...none("Accelerate's config, which is read too"),
      mean: ({ value }) => ({ file: String(value), effect: 'used', why: 'is read too' }),
    },
    quiet: flag(none('which errors are printed')),
    num_cpu_threads_per_process: none('the cores of this machine are divided among its ranks here'),
    tee: none(LOGS),
    log_dir: none(LOGS),
    role: none('the name of the processes in logs'),
    max_restarts: exported('how often the launcher starts failed processes again'),
    monitor_interval: exported('how often the launcher looks at its processes'),
    module: flag(none('how the script is started')),
    no_python: flag(none('how the script is started')),
    aws_access_key_id: refused(SAGEMAKER),
    aws_secret_access_key: refused(SAGEMAKER),
    help: flag(none('prints the help of the program')),
  },
  checks,
};
