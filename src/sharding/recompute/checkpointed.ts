import { z } from 'zod';
import { flagSchema, parseOptions, type ShapeOf } from '../../config';
import type { Warn } from '../../core';
import { type Region, runOffloaded, runRegion } from '../../engine';
import { type Module, requireModule, type Wrapper } from '../../nn';
import type { RankContext } from '../run-as-unit';

/** The objects that a checkpointed module needs; the observer gets a span 'recompute' for each second forward. */
export type CheckpointContext = Pick<RankContext, 'engine' | 'observer'>;

/** Options of `checkpointed`. */
export interface CheckpointOptions {
  /** Kernels that do not run again, because their results are saved. Default: none. */
  readonly keepResultsOf?: ReadonlySet<string> | undefined;
  /** Whether the saved tensors are on the host between forward and backward. Default false. */
  readonly offload?: boolean | undefined;
}

/**
 * Checkpoints a module in place and returns it: the module saves only its inputs for backward, and its forward runs again
 * in backward; gradients are the same to the bit. Call this function before the module becomes a unit. Then one all-gather
 * serves both the second forward and backward; otherwise each second forward gathers once more.
 * Source: torch's checkpoint_wrapper.
 */
export function checkpointed<M extends Module>(
  context: CheckpointContext,
  module: M,
  options: CheckpointOptions = {},
): M {
  module.wrap(checkpointWrapperOf(context, module, options));
  return module;
}

/** Returns the wrapper that `checkpointed` puts around a module. */
export function checkpointWrapperOf(
  { engine, observer }: CheckpointContext,
  module: Module,
  options: CheckpointOptions & Pick<Region, 'meter'>,
): Wrapper {
  const around = (recompute: () => void): void => {
    const start = engine.clock.now();
    observer.reached?.({ name: 'recompute', module: module.path });
    observer.entered?.('recompute', module.path);
    recompute();
    observer.span({ kind: 'span', name: 'recompute', module: module.path, start, end: engine.clock.now() });
  };
  return (inputs, next) => runRegion(engine, { ...options, module: module.path, around }, next, inputs);
}

/**
 * Offloads a module in place and returns it: its saved tensors are on the host from the end of its forward to the start
 * of its backward. Source: torch's offload_wrapper.
 */
export function offloaded<M extends Module>({ engine }: CheckpointContext, module: M): M {
  module.wrap((inputs, next) => runOffloaded(engine, module.path, next, inputs));
  return module;
}

/**
 * The implementations of PyTorch's checkpoint_wrapper. Source: CheckpointImpl of torch.distributed.algorithms._checkpoint.
 */
export const CheckpointImpl = { NO_REENTRANT: 'NO_REENTRANT', REENTRANT: 'REENTRANT' } as const;

/** Options of `checkpointWrapper`. Source: torch's checkpoint_impl; FairScale's offload_to_cpu. */
export interface CheckpointWrapperOptions {
  /** The implementation, which has no effect here: both behave like NO_REENTRANT. Default NO_REENTRANT. */
  readonly impl?: 'NO_REENTRANT' | 'REENTRANT' | undefined;
  /** Whether the layer's inputs are on the host between forward and backward. Default false. */
  readonly offloadToHost?: boolean | undefined;
}

const IMPLEMENTATIONS =
  'NO_REENTRANT or REENTRANT, as in PyTorch; to run a layer without checkpointing, do not call checkpointWrapper for it';

const WRAPPER = {
  impl: z.enum(CheckpointImpl).describe(IMPLEMENTATIONS).default(CheckpointImpl.NO_REENTRANT),
  offloadToHost: flagSchema.default(false),
} satisfies ShapeOf<CheckpointWrapperOptions>;

/**
 * Checkpoints a layer in place, and returns it. Throws: CONFIG for an implementation that does not exist.
 * Source: torch.distributed.algorithms._checkpoint.checkpoint_wrapper; fairscale.nn.checkpoint_wrapper.
 */
export function checkpointWrapper<M extends Module>(
  context: CheckpointContext & { readonly warn: Warn },
  layer: M,
  options: CheckpointWrapperOptions = {},
): M {
  requireModule('checkpointWrapper', layer);
  const { impl, offloadToHost } = parseOptions('checkpointWrapper(layer, { … })', options, WRAPPER);
  if (impl === CheckpointImpl.REENTRANT) {
    context.warn(
      `checkpointWrapper of "${layer.path}": impl REENTRANT behaves like NO_REENTRANT: there is only one ` +
        'implementation here, and inputs need not require gradients',
    );
  }
  return checkpointed(context, layer, { offload: offloadToHost });
}
