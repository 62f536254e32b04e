import { type Call, checkArguments } from '../../config/call-arguments';
import { ConfigError } from '../../core/errors';
import type { DeviceMesh } from '../../dist/device-mesh';
import type { FullyShardOptions } from '../fsdp/fully-shard';
import type { MixedPrecision } from '../precision/mixed-precision';
import type { CPUOffload } from './arguments';

/** Arguments of fully_shard. Source: torch.distributed.fsdp.fully_shard, in camelCase, plus FSDP's settings. */
export interface FullyShardArguments extends Omit<FullyShardOptions, 'missingAreZeros'> {
  /** One axis to shard over, or two axes: replicas, then shards. Default: all ranks. */
  readonly mesh?: DeviceMesh | undefined;
  /** `MixedPrecisionPolicy({ … })`. */
  readonly mpPolicy?: MixedPrecision | undefined;
  /** `CPUOffloadPolicy()` or `OffloadPolicy()`. */
  readonly offloadPolicy?: CPUOffload | undefined;
}

/** All that it takes are settings. */
const FULLY_SHARD: Call<'fullyShard', FullyShardArguments> = {
  what: 'fullyShard(module, { … })',
  by: 'fullyShard',
  own: {},
};

/**
 * fully_shard's arguments, converted for `fullyShard`. Throws: CONFIG for an unknown argument, naming the nearest, and
 * for a value that is not a policy.
 */
export function fullyShardOptions(given: FullyShardArguments): FullyShardOptions {
  checkArguments(FULLY_SHARD, given, () => {});
  const { mesh: _mesh, mpPolicy, offloadPolicy, ...options } = given;
  if (mpPolicy !== undefined && (typeof mpPolicy !== 'object' || !('castForwardInputs' in mpPolicy))) {
    throw new ConfigError(
      `fullyShard: mpPolicy is ${JSON.stringify(mpPolicy)}; write mpPolicy: MixedPrecisionPolicy({ paramDtype: 'bfloat16' })`,
    );
  }
  if (offloadPolicy !== undefined && typeof offloadPolicy !== 'object') {
    throw new ConfigError(
      `fullyShard: offloadPolicy is ${JSON.stringify(offloadPolicy)}; write offloadPolicy: CPUOffloadPolicy()`,
    );
  }
  return {
    ...options,
    precision: options.precision ?? mpPolicy,
    offloadParameters: options.offloadParameters ?? offloadPolicy?.offloadParams,
  };
}
