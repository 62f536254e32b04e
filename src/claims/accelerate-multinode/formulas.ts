import { parse, stringify } from 'yaml';
import { configWarnings, parseTrainConfig, type TrainConfigInput } from '../../config';
import { refuseOtherFormats } from '../../training';
import { environmentOf } from '../claim';
import type { Functions } from '../expression';

/** The document's settings for machine 0 of 4 with 8 GPUs each; the document masks the address. */
export const ACCELERATE_YAML = `compute_environment: LOCAL_MACHINE
debug: false
deepspeed_config:
  deepspeed_multinode_launcher: standard
  gradient_accumulation_steps: 1
  gradient_clipping: 1.0
  offload_optimizer_device: cpu
  offload_param_device: cpu
  zero3_init_flag: true
  zero_stage: 2
distributed_type: DEEPSPEED
downcast_bf16: 'no'
dynamo_config:
  dynamo_backend: INDUCTOR
  dynamo_mode: default
  dynamo_use_dynamic: true
  dynamo_use_fullgraph: true
  dynamo_use_regional_compilation: true
enable_cpu_affinity: false
machine_rank: 0
main_process_ip: '10.233.xx.xx'
main_process_port: 12345
main_training_function: main
mixed_precision: bf16
num_machines: 4
num_processes: 32
rdzv_backend: static
same_network: false
tpu_env: []
tpu_use_cluster: false
tpu_use_sudo: false
use_cpu: false
`;

const EXPERT = 'models/Wan2.2-I2V-A14B/high_noise_model/diffusion_pytorch_model';

/** The document's --model_paths. */
export const MODEL_PATHS: readonly (string | readonly string[])[] = [
  [1, 2, 3, 4, 5, 6].map((part) => `${EXPERT}-0000${part}-of-00006.safetensors`),
  'models/Wan2.2-I2V-A14B/models_t5_umt5-xxl-enc-bf16.pth',
  'models/Wan2.1-T2V-1.3B/Wan2.1_VAE.pth',
];

/** The document's environment for NCCL. */
export const NCCL_ENV = {
  NCCL_DEBUG: 'INFO',
  NCCL_DEBUG_SUBSYS: 'ALL',
  NCCL_SOCKET_IFNAME: 'eth0',
  NCCL_IB_DISABLE: '0',
  NCCL_IB_GID_INDEX: '3',
} as const;

const MACHINES = 4;
const GPUS_EACH = 8;

/** The settings that the statement names, with the file's keys and values. */
const STATED: Readonly<Record<string, unknown>> = {
  distributed_type: 'DEEPSPEED',
  mixed_precision: 'bf16',
  rdzv_backend: 'static',
  main_process_port: 12_345,
  num_machines: MACHINES,
  num_processes: MACHINES * GPUS_EACH,
  'deepspeed_config.zero_stage': 2,
  'deepspeed_config.offload_optimizer_device': 'cpu',
  'deepspeed_config.offload_param_device': 'cpu',
  'deepspeed_config.zero3_init_flag': true,
  'deepspeed_config.gradient_accumulation_steps': 1,
  'deepspeed_config.gradient_clipping': 1,
  'deepspeed_config.deepspeed_multinode_launcher': 'standard',
  'dynamo_config.dynamo_backend': 'INDUCTOR',
};

/** The file's settings as a configuration of this library. */
const AS_CONFIG: TrainConfigInput = {
  model: 'tiny',
  parallel: { strategy: 'ZERO_2' },
  offload: { optimizer: true, parameters: true },
  mixedPrecision: 'bf16',
  accumulation: 1,
  clipNorm: 1,
};

/** Defaults of the document's variables; undefined: NCCL chooses. Source: NCCL 2.28's user guide, environment variables. */
const NCCL_DEFAULTS: Readonly<Record<string, string | undefined>> = {
  NCCL_DEBUG: undefined,
  NCCL_DEBUG_SUBSYS: 'INIT,BOOTSTRAP,ENV',
  NCCL_SOCKET_IFNAME: undefined,
  NCCL_IB_DISABLE: '0',
  NCCL_IB_GID_INDEX: '-1',
};

/** A pointer to a file whose size in bytes has ten digits. Source: git-lfs, docs/spec.md. */
const POINTER = `version https://git-lfs.github.com/spec/v1
oid sha256:${'4d7a214614ab2935c943f9e0ff69d22e'.repeat(2)}
size 9994119944
`;

/** The functions of "Accelerate on 4 machines x 8 GPUs with DiffSynth-Studio / Wan2.2-I2V-A14B". */
export const ACCELERATE_FORMULAS: Functions = {
  /** The number of stated settings that the file does not have. */
  numOtherSettings: () => Object.entries(STATED).filter(([path, value]) => setting(path) !== value).length,
  setting: (path: string) => Number(setting(path)),
  /** The number of warnings for these settings that begin with a text. */
  numWarnings: (start: string) =>
    configWarnings(AS_CONFIG, parseTrainConfig(AS_CONFIG), MACHINES * GPUS_EACH).filter((text) =>
      text.startsWith(start),
    ).length,
  /** The number of keys for shards of parameters that the file sets although its stage (or `stage`) does not shard parameters. */
  numWithoutEffect: (stage = Number(setting('deepspeed_config.zero_stage'))) =>
    stage === 3
      ? 0
      : ['offload_param_device', 'zero3_init_flag'].filter(
          (key) => setting(`deepspeed_config.${key}`) !== undefined,
        ).length,
  /** The number of different files of the four machines, and of keys other than machine_rank in which the files differ. */
  numFiles: () => new Set(machineFiles()).size,
  numOtherKeys: () => {
    const [first = '', ...others] = machineFiles();
    const known = new Set(first.split('\n'));
    const differing = others.flatMap((file) => file.split('\n')).filter((line) => !known.has(line));
    return new Set(differing.filter((line) => !line.startsWith('machine_rank:'))).size;
  },
  numVariables: () => Object.keys(NCCL_ENV).length,
  numKnownVariables: () => Object.keys(NCCL_ENV).filter((name) => name in NCCL_DEFAULTS).length,
  numAtDefault: () =>
    Object.entries(NCCL_ENV).filter(([name, value]) => NCCL_DEFAULTS[name] === value).length,
  /** The number of variables that name an interface or an address of one network. */
  numOfOneNetwork: () => Object.keys(NCCL_ENV).filter((name) => /IFNAME|GID_INDEX/.test(name)).length,
  /** The weights have six parts: how many of these parts the document's list names, and how many experts the list names. */
  numParts: () =>
    new Set(MODEL_PATHS.flat().flatMap((file) => /-0000([1-6])-of-00006/.exec(file)?.[1] ?? [])).size,
  numListedExperts: () =>
    new Set(MODEL_PATHS.flat().flatMap((file) => /(high|low)_noise/.exec(file)?.[0] ?? [])).size,
  /** The number of commands with which the document clones its example data. */
  numDataClones: () =>
    environmentOf('accelerate-multinode').filter(
      ({ item, section }) => section === 'example data' && item.startsWith('git'),
    ).length,
  pointerBytes: () => Buffer.byteLength(POINTER),
  /** 1 if this library refuses the pointer and advises `git lfs pull`, else 0. */
  isPointerRefused: () => {
    try {
      refuseOtherFormats('weights.safetensors', Buffer.from(POINTER));
      return 0;
    } catch (error) {
      return Number(error instanceof Error && error.message.includes('git lfs pull'));
    }
  },
};

/** Returns a setting of the file by its path, such as 'deepspeed_config.zero_stage'. */
function setting(path: string): unknown {
  return path
    .split('.')
    .reduce<unknown>(
      (section, key) => (section as Readonly<Record<string, unknown>> | undefined)?.[key],
      readYaml(),
    );
}

function machineFiles(): string[] {
  return Array.from({ length: MACHINES }, (_, rank) => stringify({ ...readYaml(), machine_rank: rank }));
}

function readYaml(): Readonly<Record<string, unknown>> {
  return parse(ACCELERATE_YAML) as Record<string, unknown>; // the YAML is a mapping
}
