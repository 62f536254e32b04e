import type { z } from 'zod';
import {
  flag,
  flagSchema,
  MIXED_PRECISION,
  mixedPrecisionSchema,
  parseOptions,
  requireKnownOptions,
  requireOptions,
  type ShapeOf,
  type StrategyName,
  strictNames,
} from '../../config';
import { ConfigError, shown, type Warn } from '../../core';
import { mixedPrecision, type MixedPrecision as Policy } from '../precision/mixed-precision';

/** Options of `MixedPrecision`. A dtype is one of 'bf16', 'bfloat16', 'fp16', 'float16', 'fp32', 'float32'. */
export type MixedPrecisionOptions = Exclude<z.input<typeof mixedPrecisionSchema>, string | null>;

/**
 * Makes the policy that says in which dtypes parameters, reductions and outputs are. Source:
 * torch.distributed.fsdp.MixedPrecision.
 * Throws: CONFIG for an unknown argument or dtype.
 */
export function MixedPrecision(options: MixedPrecisionOptions = {}): Policy {
  return policyFrom('MixedPrecision', options);
}

/**
 * Does the same as `MixedPrecision`, under the name that fully_shard uses. Source:
 * torch.distributed.fsdp.MixedPrecisionPolicy.
 */
export function MixedPrecisionPolicy(options: MixedPrecisionOptions = {}): Policy {
  return policyFrom('MixedPrecisionPolicy', options);
}

const FLAGS = { castForwardInputs: flag, keepLowPrecisionGrads: flag };

function policyFrom(caller: string, options: MixedPrecisionOptions): Policy {
  requireKnownOptions(`${caller}({ … })`, options, Object.keys(MIXED_PRECISION));
  const { castForwardInputs, keepLowPrecisionGrads } = options;
  requireOptions(caller, { castForwardInputs, keepLowPrecisionGrads }, FLAGS);
  const parsed = mixedPrecisionSchema.safeParse(options);
  if (parsed.success) return mixedPrecision(parsed.data ?? {});
  const wrong = Object.entries(options).map(([name, value]) => `${name}: ${shown(value)}`);
  throw new ConfigError(
    `${caller}({ ${wrong.join(', ')} }) names an unknown type; choose one of 'bf16', 'fp16', 'fp32', 'bfloat16', 'float16', 'float32'`,
  );
}

/** Whether FSDP stores shards on the host. Source: torch.distributed.fsdp.CPUOffload. */
export interface CPUOffload {
  readonly offloadParams: boolean;
}

const OFFLOAD = { offloadParams: flagSchema.default(false) } satisfies ShapeOf<Partial<CPUOffload>>;

/** Makes FSDP's offload policy. Source: torch.distributed.fsdp.CPUOffload. Throws: CONFIG for an unknown argument. */
export function CPUOffload(options: Partial<CPUOffload> = {}): CPUOffload {
  return parseOptions('CPUOffload({ … })', options, OFFLOAD);
}

/** Makes fully_shard's policy without offload: shards are on the device. Source: torch.distributed.fsdp.OffloadPolicy. */
export function OffloadPolicy(): CPUOffload {
  return { offloadParams: false };
}

/** Options of `CPUOffloadPolicy`. */
export interface CPUOffloadPolicyOptions {
  /** Has no effect, because host and device are both CPU memory. */
  readonly pinMemory?: boolean;
}

const PINNED = { pinMemory: flagSchema } satisfies ShapeOf<CPUOffloadPolicyOptions>;

/** Makes fully_shard's offload policy: shards are on the host. Source: torch.distributed.fsdp.CPUOffloadPolicy. */
export function CPUOffloadPolicy(warn: Warn, options: CPUOffloadPolicyOptions = {}): CPUOffload {
  const { pinMemory } = parseOptions('CPUOffloadPolicy({ … })', options, PINNED);
  if (pinMemory !== undefined) {
    warn('CPUOffloadPolicy: pinMemory has no effect: host and device are both CPU memory here');
  }
  return { offloadParams: true };
}

/** The names of FSDP's strategies (ZERO_1 and ZERO_2 are DeepSpeed's). Source: torch.distributed.fsdp.ShardingStrategy. */
export const ShardingStrategy = strictNames('ShardingStrategy', {
  FULL_SHARD: 'FULL_SHARD',
  SHARD_GRAD_OP: 'SHARD_GRAD_OP',
  NO_SHARD: 'NO_SHARD',
  HYBRID_SHARD: 'HYBRID_SHARD',
  _HYBRID_SHARD_ZERO2: '_HYBRID_SHARD_ZERO2',
} as const satisfies Partial<Record<StrategyName, StrategyName>>);

export type ShardingStrategy = (typeof ShardingStrategy)[keyof typeof ShardingStrategy];

/** When backward gathers the next unit; null stands for no prefetch. Source: torch.distributed.fsdp.BackwardPrefetch. */
export const BackwardPrefetch = strictNames('BackwardPrefetch', {
  BACKWARD_PRE: 'BACKWARD_PRE',
  BACKWARD_POST: 'BACKWARD_POST',
} as const);

export type BackwardPrefetch = (typeof BackwardPrefetch)[keyof typeof BackwardPrefetch];

const RENAMED = 'PyTorch calls it ShardingStrategy';

/** A wrong name that a document uses for `ShardingStrategy`; a read of any member throws CONFIG. */
export const ShardStrategy = strictNames('ShardStrategy', {}, {
  FULL_SHARD: `${RENAMED}: ShardingStrategy.FULL_SHARD`,
  SHARD_GRAD_OP: `${RENAMED}: ShardingStrategy.SHARD_GRAD_OP`,
  NO_SHARD: `${RENAMED}: ShardingStrategy.NO_SHARD`,
  HYBRID_SHARD: `${RENAMED}: ShardingStrategy.HYBRID_SHARD`,
} as const);
