import type { z } from 'zod';
import { requireKnownOptions } from '../../config/option-names';
import { MIXED_PRECISION, mixedPrecisionSchema } from '../../config/settings/precision';
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
