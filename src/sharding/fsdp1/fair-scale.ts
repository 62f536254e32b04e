import { camelCase, flag, requireKnownOptions, requireOptions } from '../../config';
import type { Warn } from '../../core';
import type { MixedPrecision as Policy } from '../precision/mixed-precision';
import { CPUOffload, MixedPrecision, type MixedPrecisionOptions } from './arguments';

type FloatName = NonNullable<MixedPrecisionOptions['paramDtype']>;

/** Arguments of FairScale's FullyShardedDataParallel. Source: fairscale 0.4, which is archived. */
export interface FairScaleOptions {
  readonly reshard_after_forward?: boolean;
  /** Whether to compute in compute_dtype (default float16); masters are float32. */
  readonly mixed_precision?: boolean;
  readonly fp32_reduce_scatter?: boolean;
  readonly compute_dtype?: FloatName;
  readonly buffer_dtype?: FloatName;
  readonly cpu_offload?: boolean;
  readonly move_params_to_cpu?: boolean;
  readonly flatten_parameters?: boolean;
  readonly bucket_cap_mb?: number;
  readonly move_grads_to_cpu?: boolean;
  readonly compute_device?: unknown;
  readonly no_broadcast_optim_state?: boolean;
  readonly state_dict_device?: unknown;
  readonly clear_autocast_cache?: boolean;
  readonly force_input_to_fp32?: boolean;
  readonly verbose?: boolean;
}

/** The arguments of FSDP into which FairScale's arguments are converted. */
export interface FairScaleAsFsdp {
  readonly shardingStrategy: 'FULL_SHARD' | 'SHARD_GRAD_OP';
  readonly mixedPrecision?: Policy;
  readonly cpuOffload?: CPUOffload;
}

const NOTHING = 'has no effect';

/**
 * For each argument of FairScale, what to write in its place. Each argument has two keys: its name, and its name in
 * camelCase.
 */
export const FAIR_SCALE_NAMES: Readonly<Record<string, string>> = inBothSpellings({
  reshard_after_forward: "it is shardingStrategy: 'FULL_SHARD' (false: 'SHARD_GRAD_OP')",
  fp32_reduce_scatter: "it is mixedPrecision: MixedPrecision({ reduceDtype: 'float32' })",
  compute_dtype: 'it is mixedPrecision: MixedPrecision({ paramDtype })',
  buffer_dtype: 'it is mixedPrecision: MixedPrecision({ bufferDtype })',
  move_params_to_cpu: 'it is cpuOffload: CPUOffload({ offloadParams: true })',
  move_grads_to_cpu: 'it is part of cpuOffload: CPUOffload({ offloadParams: true })',
  flatten_parameters: `it ${NOTHING}: each parameter is sharded along dim 0 and needs no flat copy`,
  bucket_cap_mb: `it ${NOTHING}: a unit's gradients are reduced together, and autoWrapPolicy chooses the units`,
  compute_device: `it ${NOTHING}: every rank has one engine`,
  no_broadcast_optim_state: `it ${NOTHING}: optimizer states are sharded`,
  state_dict_device: `it ${NOTHING}: state dicts are written directly from the shards`,
  clear_autocast_cache: `it ${NOTHING}: there is no autocast`,
  force_input_to_fp32: `it ${NOTHING}: inputs are float32 unless castForwardInputs rounds them`,
  verbose: `it ${NOTHING}: print the model`,
});

/** FairScale's arguments that FSDP has too (here in camelCase). */
const SHARED = ['mixed_precision', 'cpu_offload'];

const FLAGS = [
  'reshard_after_forward',
  'mixed_precision',
  'fp32_reduce_scatter',
  'cpu_offload',
  'move_params_to_cpu',
  'move_grads_to_cpu',
] as const;
const FLAG_KINDS = Object.fromEntries(FLAGS.map((name) => [name, flag]));

const WITHOUT_EFFECT = Object.entries(FAIR_SCALE_NAMES).filter(([, ours]) => ours.includes(NOTHING));

/**
 * Converts FairScale's arguments to arguments of FSDP. Warns about arguments without effect. Throws: CONFIG for an argument
 * that FairScale does not have.
 */
export function fromFairScale(options: FairScaleOptions, warn: Warn): FairScaleAsFsdp {
  const known = [...Object.keys(FAIR_SCALE_NAMES), ...SHARED].filter((name) => name === snakeCase(name));
  requireKnownOptions('fromFairScale({ … })', options, known);
  requireOptions('fromFairScale', Object.fromEntries(FLAGS.map((name) => [name, options[name]])), FLAG_KINDS);
  for (const [name, ours] of WITHOUT_EFFECT) {
    if (Object.hasOwn(options, name)) warn(`fromFairScale got ${name}; here ${ours}`);
  }
  if (options.move_grads_to_cpu !== undefined && options.move_grads_to_cpu !== offloads(options)) {
    warn(
      'fromFairScale: move_grads_to_cpu has no effect, because gradients are always stored where their parameters are; set move_params_to_cpu',
    );
  }
  const { reshard_after_forward: reshard = true } = options;
  return {
    shardingStrategy: reshard ? 'FULL_SHARD' : 'SHARD_GRAD_OP',
    ...(options.mixed_precision === true ? { mixedPrecision: precisionOf(options) } : {}),
    ...(offloads(options) ? { cpuOffload: CPUOffload({ offloadParams: true }) } : {}),
  };
}

function offloads({ cpu_offload, move_params_to_cpu }: FairScaleOptions): boolean {
  return cpu_offload ?? move_params_to_cpu ?? false;
}

function precisionOf(options: FairScaleOptions) {
  const {
    compute_dtype: paramDtype = 'float16',
    fp32_reduce_scatter: isFull = false,
    buffer_dtype,
  } = options;
  return MixedPrecision({
    paramDtype,
    reduceDtype: isFull ? 'float32' : paramDtype,
    ...(buffer_dtype === undefined ? {} : { bufferDtype: buffer_dtype }),
  });
}

function inBothSpellings(names: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(names).flatMap(([name, ours]) => [
      [name, ours],
      [camelCase(name), ours],
    ]),
  );
}

function snakeCase(name: string): string {
  return name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}
