import { type Call, checkArguments } from '../../config/call-arguments';
import { ConfigError } from '../../core/errors';
import type { Warn } from '../../core/warn';
import type { Layer } from '../../nn/layers-model';
import type { Module } from '../../nn/module';
import { withParameters } from '../../nn/require-parameters';
import type { DdpOptions } from '../../parallel/ddp/distributed-data-parallel';
import { unitsOf } from '../../parallel/fsdp/units-of';

const DDP: Call<'ddp', DdpOptions> = {
  what: 'DDP(model, { … })',
  by: 'ddp',
  own: {
    firstBucketBytes: true,
    policy: true,
    deviceIds: { noEffect: 'every rank has one engine' },
    outputDevice: { noEffect: 'every rank has one engine' },
    findUnusedParameters: {
      noEffect: 'DDP always finds parameters that no rank uses, and leaves them unchanged',
    },
    gradientAsBucketView: { noEffect: 'gradients are always views of their buckets' },
    bucketCapMb: {
      refused: 'it takes the bucket size in bytes: bucketBytes: 25 * 2 ** 20 is bucket_cap_mb=25',
    },
  },
};

/** DDP's options after the check. Throws: CONFIG for an unknown one, naming the nearest. */
export function ddpArguments(options: DdpOptions, warn: Warn): DdpOptions {
  checkArguments(DDP, options, warn);
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
