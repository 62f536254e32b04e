import { requireKnownOptions } from '../../config/option-names';
import { ConfigError } from '../../core/errors';
import type { Warn } from '../../core/warn';
import type { Module } from '../../nn/module';
import { type CheckpointContext, checkpointed } from './checkpointed';

/**
 * How PyTorch's checkpoint_wrapper runs backward. Source: CheckpointImpl of torch.distributed.algorithms._checkpoint.
 */
export const CheckpointImpl = { NO_REENTRANT: 'NO_REENTRANT', REENTRANT: 'REENTRANT' } as const;

/** Options of `checkpointWrapper`. Source: torch's checkpoint_impl; FairScale's offload_to_cpu. */
export interface CheckpointWrapperOptions {
  /** Default NO_REENTRANT. */
  readonly impl?: 'NO_REENTRANT' | 'REENTRANT' | undefined;
  /** Whether the layer's inputs are on the host between forward and backward. Default false. */
  readonly offloadToHost?: boolean | undefined;
}

/**
 * Checkpoints a layer in place, and returns it. Throws: CONFIG for an implementation that does not exist.
 * Source: torch.distributed.algorithms._checkpoint.checkpoint_wrapper; fairscale.nn.checkpoint_wrapper.
 */
export function checkpointWrapper<M extends Module>(
  context: CheckpointContext & { readonly warn: Warn },
  layer: M,
  options: CheckpointWrapperOptions = {},
): M {
  requireKnownOptions('checkpointWrapper(layer, { … })', options, ['impl', 'offloadToHost']);
  const { impl = CheckpointImpl.NO_REENTRANT, offloadToHost = false } = options;
  if (!Object.hasOwn(CheckpointImpl, impl)) {
    throw new ConfigError(
      `checkpointWrapper: impl is ${JSON.stringify(impl)}; PyTorch has NO_REENTRANT and REENTRANT, and none for a layer ` +
        'that is not checkpointed: leave checkpointWrapper out for that',
    );
  }
  if (impl === CheckpointImpl.REENTRANT) {
    context.warn(
      `checkpointWrapper of "${layer.path}": impl REENTRANT behaves as NO_REENTRANT does; there is one backward here, ` +
        'which needs neither a second autograd run nor inputs that require gradients',
    );
  }
  return checkpointed(context, layer, { offload: offloadToHost });
}
