import type { z } from 'zod';
import { requireKnownOptions } from '../../config/option-names';
import { MIXED_PRECISION, mixedPrecisionSchema } from '../../config/settings/precision';
import type { StrategyName } from '../../config/strategies';
import { strictNames } from '../../config/strict-names';
import { ConfigError } from '../../core/errors';
import type { Warn } from '../../core/warn';
import { mixedPrecision, type MixedPrecision as Policy } from '../precision/mixed-precision';

/** Types, by a config's names: 'bf16', 'bfloat16', 'fp16', 'float16', 'fp32', 'float32'. */
export type MixedPrecisionOptions = Exclude<z.input<typeof mixedPrecisionSchema>, string | null>;

/**
 * Types of parameters, reductions and outputs. Source: torch.distributed.fsdp.MixedPrecision.
 * Throws: CONFIG for an unknown argument or type.
 */
export function MixedPrecision(options: MixedPrecisionOptions = {}): Policy {
  return policyFrom('MixedPrecision', options);
}

/** As `MixedPrecision`, by fully_shard's name. Source: torch.distributed.fsdp.MixedPrecisionPolicy. */
export function MixedPrecisionPolicy(options: MixedPrecisionOptions = {}): Policy {
  return policyFrom('MixedPrecisionPolicy', options);
}

function policyFrom(what: string, options: MixedPrecisionOptions): Policy {
  requireKnownOptions(`${what}({ … })`, options, Object.keys(MIXED_PRECISION));
  const parsed = mixedPrecisionSchema.safeParse(options);
  if (parsed.success) return mixedPrecision(parsed.data ?? {});
  const wrong = Object.entries(options).map(([name, value]) => `${name}: ${JSON.stringify(value)}`);
  throw new ConfigError(
    `${what}({ ${wrong.join(', ')} }) names an unknown type; known are 'bf16', 'fp16', 'fp32', 'bfloat16', 'float16', 'float32'`,
  );
}

/** Where FSDP stores shards between uses. Source: torch.distributed.fsdp.CPUOffload. */
export interface CPUOffload {
  readonly offloadParams: boolean;
}

/** Source: torch.distributed.fsdp.CPUOffload. Throws: CONFIG for an unknown argument. */
export function CPUOffload(options: Partial<CPUOffload> = {}): CPUOffload {
  requireKnownOptions('CPUOffload({ … })', options, ['offloadParams']);
  return { offloadParams: options.offloadParams ?? false };
}

/** fully_shard's offload policy: shards stay on the device. Source: torch.distributed.fsdp.OffloadPolicy. */
export function OffloadPolicy(): CPUOffload {
  return { offloadParams: false };
}

/** Options of `CPUOffloadPolicy`. */
export interface CPUOffloadPolicyOptions {
  /** Has no effect: host and device are one memory. */
  readonly pinMemory?: boolean;
}

/** fully_shard's offload policy: shards are on the host. Source: torch.distributed.fsdp.CPUOffloadPolicy. */
export function CPUOffloadPolicy(warn: Warn, options: CPUOffloadPolicyOptions = {}): CPUOffload {
  requireKnownOptions('CPUOffloadPolicy({ … })', options, ['pinMemory']);
  if (options.pinMemory !== undefined) {
    warn('CPUOffloadPolicy: pinMemory has no effect: no device copies from pages of the host here');
  }
  return { offloadParams: true };
}

/** Source: torch.distributed.fsdp.ShardingStrategy; ZERO_1 and ZERO_2 are DeepSpeed's; FSDP does not have them. */
export const ShardingStrategy = strictNames('ShardingStrategy', {
  FULL_SHARD: 'FULL_SHARD',
  SHARD_GRAD_OP: 'SHARD_GRAD_OP',
  NO_SHARD: 'NO_SHARD',
  HYBRID_SHARD: 'HYBRID_SHARD',
  _HYBRID_SHARD_ZERO2: '_HYBRID_SHARD_ZERO2',
} as const satisfies Partial<Record<StrategyName, StrategyName>>);

export type ShardingStrategy = (typeof ShardingStrategy)[keyof typeof ShardingStrategy];

/** Source: torch.distributed.fsdp.BackwardPrefetch; none is null. */
export const BackwardPrefetch = strictNames('BackwardPrefetch', {
  BACKWARD_PRE: 'BACKWARD_PRE',
  BACKWARD_POST: 'BACKWARD_POST',
} as const);

export type BackwardPrefetch = (typeof BackwardPrefetch)[keyof typeof BackwardPrefetch];

const RENAMED = 'PyTorch calls it ShardingStrategy';

/** A document's misspelling of ShardingStrategy; every name in it throws CONFIG. */
export const ShardStrategy = strictNames('ShardStrategy', {}, {
  FULL_SHARD: `${RENAMED}: ShardingStrategy.FULL_SHARD`,
  SHARD_GRAD_OP: `${RENAMED}: ShardingStrategy.SHARD_GRAD_OP`,
  NO_SHARD: `${RENAMED}: ShardingStrategy.NO_SHARD`,
  HYBRID_SHARD: `${RENAMED}: ShardingStrategy.HYBRID_SHARD`,
} as const);
