import { ConfigError } from '../../core';
import { offloadDevice } from '../deepspeed/offload-device';
import { addressKey, portKey } from '../launchers/torchrun';
import {
  decides,
  exported,
  flag,
  flags,
  isNothing,
  type KeyInput,
  type KeyRow,
  type KeyTable,
  none,
  place,
  refused,
  settingKeys,
  type Translation,
  wrongValue,
} from '../rows/key-row';
import type { Place } from '../rows/reading';
import { clip, floatOf, strategyOfStage, whole, wholeOf, yesOf } from '../rows/values';
import { isUnwrapped, UNWRAPPED } from './accelerate-fsdp';

// Keys of Accelerate: the YAML of `accelerate config`, whose sections have the names of the arguments of `accelerate launch`.

/** The switches of `accelerate launch`, which decide in place of the file's distributed_type. */
const SWITCHES = {
  use_deepspeed: 'DEEPSPEED',
  use_fsdp: 'FSDP',
  use_megatron_lm: 'MEGATRON_LM',
  multi_gpu: 'MULTI_GPU',
} as const;

/** Returns how processes share the model, if a key says so. Source: _validate_launch_command of Accelerate. */
function methodGiven({ other, value, key }: KeyInput): string | undefined {
  const switched = Object.entries(SWITCHES).find(([name]) => isGiven(other(name)));
  if (switched !== undefined) return switched[1];
  const type = key === 'distributed_type' ? value : other('distributed_type');
  return typeof type === 'string' ? type.toUpperCase() : undefined;
}

/** Returns how processes share the model, from the keys that decide it. */
function methodOf(input: KeyInput): string {
  return methodGiven(input) ?? 'MULTI_GPU';
}

/** Returns the program that trains; undefined if no key says so, or if nothing is sharded. */
export function accelerateStack(other: KeyInput['other']): Place['stack'] | undefined {
  const method = methodGiven({ key: '', value: undefined, line: 0, other });
  return ({ DEEPSPEED: 'deepspeed', FSDP: 'fsdp2', MEGATRON_LM: 'megatron' } as const)[method ?? ''];
}

/**
 * Returns rows of keys that Accelerate reads only with one kind of training. If no key says the kind, it is in Accelerate's
 * default file, and the rows hold.
 */
export function readWith(method: 'DEEPSPEED' | 'FSDP' | 'MEGATRON_LM', table: KeyTable): KeyTable {
  return Object.fromEntries(
    Object.entries(table).map(([key, row]): [string, KeyRow] => {
      const mean: KeyRow['mean'] = (input) => {
        const given = methodGiven(input);
        if (given === undefined || given === method) return row.mean(input);
        const why = `Accelerate reads it only with distributed_type ${method}, and this training has ${given}`;
        return { effect: row.effect === 'none' ? 'none' : 'warning', why };
      };
      return [key, { ...row, mean }];
    }),
  );
}

function isGiven(value: unknown): boolean {
  return value !== undefined && !isNothing(value);
}

const PLAIN = [
  'NO',
  'MULTI_CPU',
  'MULTI_GPU',
  'MULTI_NPU',
  'MULTI_MLU',
  'MULTI_SDAA',
  'MULTI_MUSA',
  'MULTI_XPU',
  'MULTI_HPU',
  'MULTI_NEURON',
];

export function distributedType(input: KeyInput): Translation {
  const method = methodOf(input);
  if (method === 'XLA' || method === 'TPU')
    return { effect: 'refused', why: 'nothing here runs on TPUs; use MULTI_GPU or FSDP' };
  if (method === 'DEEPSPEED') {
    const file = input.other('deepspeed_config_file');
    if (file !== undefined)
      return {
        effect: 'used',
        why: typeof file === 'string' ? `DeepSpeed, whose settings are in ${file}` : 'DeepSpeed',
      };
    return { usual: { 'parallel.strategy': 'ZERO_2' }, why: "DeepSpeed; Accelerate's default is stage 2" };
  }
  if (method === 'FSDP')
    return isUnwrapped(input.other)
      ? { usual: { 'parallel.strategy': 'FULL_SHARD', 'parallel.wrap': 'root' }, why: UNWRAPPED }
      : { usual: { 'parallel.strategy': 'FULL_SHARD' } };
  if (method === 'MEGATRON_LM') return { usual: { 'parallel.strategy': 'NO_SHARD' }, why: 'Megatron-LM' };
  if (!PLAIN.includes(method))
    throw wrongValue(input.value, [...PLAIN, 'DEEPSPEED', 'FSDP', 'MEGATRON_LM'].join(', '));
  return { sets: { 'parallel.strategy': 'NO_SHARD' } };
}

/** Returns the dtypes that a plugin of Accelerate sets (source: set_mixed_precision); without a plugin, torch.autocast's. */
function mixedPrecision(input: KeyInput): Translation {
  const { value } = input;
  if (value === false)
    throw new ConfigError(
      "in YAML 1.1, the word no without quotes means false, and Accelerate stops at false; write mixed_precision: 'no'",
    );
  if (String(value) === 'fp8')
    return {
      sets: { 'mixedPrecision.paramDtype': 'bfloat16' },
      place: { isFp8: true },
      why: 'float8 is only planned; a run here computes in bfloat16',
    };
  const paramDtype = floatOf(isNothing(value) ? 'no' : value);
  if (paramDtype === 'float32') return { effect: 'used', why: 'float32, which is the default here' };
  const method = methodOf(input);
  const reduceDtype = method === 'FSDP' ? paramDtype : method === 'DEEPSPEED' ? undefined : 'float32';
  return {
    sets: {
      'mixedPrecision.paramDtype': paramDtype,
      ...(reduceDtype !== undefined && { 'mixedPrecision.reduceDtype': reduceDtype }),
    },
    ...(reduceDtype === 'float32' && { why: 'torch.autocast, whose gradients are float32' }),
  };
}

/** Keys for the numbers of ranks and machines. */
const PROCESSES: KeyTable = {
  num_processes: place('number of ranks', (value) => ({ world: wholeOf(value) })),
  num_machines: place('number of machines', (value) => ({ machines: wholeOf(value) })),
};

export const OFF_GPU = 'nothing here runs on TPUs';
export const DYNAMO = 'a plan knows only whether the model is compiled';
const FP8 = 'a plan knows only whether matmuls are in float8, and nothing here computes in float8';

const MACHINE = 'an export writes one file per machine, and each file has the index of its machine';

function machineRank({ value, other }: KeyInput): Translation {
  const machines = Number(other('num_machines') ?? Number.NaN);
  if (value !== null && wholeOf(value, 0) >= machines)
    throw wrongValue(value, `the index of a machine, from 0 to ${machines - 1} (num_machines: ${machines})`);
  return { effect: 'exported', why: MACHINE };
}

/** Keys that say where processes run; the YAML and the command both have them. */
export const RESOURCES: KeyTable = {
  ...PROCESSES,
  ...settingKeys('accelerate', {
    mixedPrecision: { mixed_precision: decides('mixedPrecision', mixedPrecision) },
  }),
  machine_rank: { ...exported(MACHINE), mean: machineRank },
  main_process_ip: addressKey('the address of machine 0, at which all processes meet'),
  main_process_port: portKey('the port of machine 0 at which all processes meet'),
  rdzv_backend: exported('how processes find each other before they train'),
  rdzv_conf: exported('how processes find each other before they train'),
  same_network: flag(
    none('decides only whether Accelerate gives torchrun a master address or a rendezvous endpoint'),
  ),
  gpu_ids: none('which GPUs of the machine are used; ranks here run on CPUs'),
  enable_cpu_affinity: flag(none('ranks are not bound to cores here')),
  debug: flag(none('every collective is compared between ranks here in any case')),
  main_training_function: none('Accelerate uses it on TPUs only'),
  downcast_bf16: flag(none('Accelerate uses it on TPUs only')),
};

export const TPU: KeyTable = {
  tpu_use_cluster: refused(OFF_GPU),
  tpu_use_sudo: flag(refused(OFF_GPU)),
  tpu_name: refused(OFF_GPU),
  tpu_zone: refused(OFF_GPU),
  tpu_vm: refused(OFF_GPU),
  tpu_env: refused(OFF_GPU),
  command_file: refused(OFF_GPU),
  commands: refused(OFF_GPU),
};

export const DYNAMO_KEYS: KeyTable = {
  dynamo_backend: {
    ...place('the model is compiled', () => ({ compile: true })),
    mean: ({ value }) =>
      isNothing(value)
        ? { effect: 'none', why: 'the model is not compiled' }
        : {
            place: { compile: true },
            why: 'only a plan takes this into account; kernels here are fused without a compiler',
          },
  },
  dynamo_mode: none(DYNAMO),
  ...flags({
    dynamo_use_dynamic: none(DYNAMO),
    dynamo_use_fullgraph: none(DYNAMO),
    dynamo_use_regional_compilation: none(DYNAMO),
  }),
};

function stageOf(other: KeyInput['other']): number {
  return Number(other('zero_stage') ?? 2);
}

const LAUNCHER = "DeepSpeed's launcher uses it";

export const DEEPSPEED_KEYS: KeyTable = {
  ...settingKeys('accelerate', {
    'parallel.strategy': { zero_stage: strategyOfStage },
    'offload.optimizer': { offload_optimizer_device: offloadDevice('offload.optimizer', stageOf) },
    'offload.parameters': { offload_param_device: offloadDevice('offload.parameters', stageOf) },
    accumulation: whole,
    clipNorm: { gradient_clipping: clip },
  }),
  deepspeed_config_file: {
    ...none('a file of DeepSpeed, which is read too'),
    mean: ({ value }) => {
      if (typeof value !== 'string') throw wrongValue(value, 'the path of a file');
      return { file: value, effect: 'used', why: 'is read too' };
    },
  },
  offload_optimizer_nvme_path: none('offloaded states are in the memory of the host here'),
  offload_param_nvme_path: none('offloaded states are in the memory of the host here'),
  zero3_init_flag: {
    ...none('models are built chunk by chunk here in any case'),
    mean: ({ value, other }) => ({
      effect: 'none',
      why:
        yesOf(value) && stageOf(other) !== 3 && other('deepspeed_config_file') === undefined
          ? `is for stage 3: with stage ${stageOf(other)}, Accelerate warns and sets it to false`
          : 'models are built chunk by chunk here in any case',
    }),
  },
  zero3_save_16bit_model: none('run.savePretrained writes whole parameters'),
  deepspeed_multinode_launcher: exported('how the processes of other machines are started'),
  deepspeed_hostfile: exported(LAUNCHER),
  deepspeed_exclusion_filter: exported(LAUNCHER),
  deepspeed_inclusion_filter: exported(LAUNCHER),
  deepspeed_moe_layer_cls_names: none('every expert is a unit here'),
};

export const FP8_KEYS: KeyTable = {
  ...Object.fromEntries(
    [
      'backend',
      'margin',
      'interval',
      'format',
      'amax_history_len',
      'amax_compute_algo',
      'override_linear_precision',
      'opt_level',
      'enable_fsdp_float8_all_gather',
      'pad_inner_dim',
    ].map((key) => [`fp8_${key}`, none(FP8)]),
  ),
  fp8_use_autocast_during_eval: flag(none(FP8)),
};

export const MPI: KeyTable = {
  mpirun_hostfile: exported("mpirun's file of hosts"),
  mpirun_ccl: none("number of threads of Intel's oneCCL; gloo has no such threads"),
};

export const SAGEMAKER = 'SageMaker starts machines itself; nothing here talks to it';

export const SAGEMAKER_KEYS: KeyTable = Object.fromEntries(
  [
    'ec2_instance_type',
    'iam_role_name',
    'image_uri',
    'profile',
    'region',
    'base_job_name',
    'pytorch_version',
    'transformers_version',
    'py_version',
    'sagemaker_inputs_file',
    'sagemaker_metrics_file',
    'additional_args',
  ].map((key) => [key, refused(SAGEMAKER)]),
);
