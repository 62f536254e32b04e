import { requireKnownOptions } from '../../config/option-names';
import { ConfigError } from '../../core/errors';
import type { Warn } from '../../core/warn';
import type { Layer } from '../../nn/layers-model';
import type { Module } from '../../nn/module';
import { withParameters } from '../../nn/require-parameters';
import type { DdpOptions } from '../../parallel/ddp/distributed-data-parallel';
import { unitsOf } from '../../parallel/fsdp/units-of';

/** All names; the compiler requires each of them. */
const DDP_NAMES: Readonly<Record<keyof DdpOptions, true>> = {
  bucketBytes: true,
  firstBucketBytes: true,
  policy: true,
  precision: true,
  sparseGradients: true,
};

/** Arguments of torch's DistributedDataParallel that change nothing here. */
const DDP_WITHOUT_EFFECT: Readonly<Record<string, string>> = {
  deviceIds: 'every rank has one engine',
  outputDevice: 'every rank has one engine',
  findUnusedParameters: 'DDP always finds parameters that no rank uses, and leaves them unchanged',
  gradientAsBucketView: 'gradients are always views of their buckets',
};

/** DDP's options after the check. Throws: CONFIG for an unknown one, naming the nearest. */
export function ddpArguments(options: DdpOptions, warn: Warn): DdpOptions {
  const known = [...Object.keys(DDP_NAMES), ...Object.keys(DDP_WITHOUT_EFFECT)];
  if ('bucketCapMb' in options || 'bucket_cap_mb' in options) {
    throw new ConfigError(
      'DDP(model, { … }) takes the bucket size in bytes: bucketBytes: 25 * 2 ** 20 is bucket_cap_mb=25',
    );
  }
  requireKnownOptions('DDP(model, { … })', options, known);
  for (const [name, reason] of Object.entries(DDP_WITHOUT_EFFECT)) {
    if (Object.hasOwn(options, name)) warn(`DDP: ${name} has no effect: ${reason}`);
  }
  return options;
}

/**
 * The module that DDP wraps. Throws: CONFIG for a value that is not a module, a module without parameters, and a
 * sharded model.
 */
export function replicable(module: Module | Layer): Module {
  const taken = withParameters(module, 'DDP');
  if (unitsOf(taken).length === 0) return taken;
  throw new ConfigError(
    'DDP(model): fullyShard or FSDP has already sharded the model, and DDP needs the whole model on every rank; ' +
      "build it again for DDP, or keep copies of shards: fullyShard(model, { mesh: initDeviceMesh([copies, shards], ['replicate', 'shard']) })",
  );
}
