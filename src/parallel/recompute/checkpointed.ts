import { runOffloaded } from '../../autograd/offloaded';
import { runRegion } from '../../autograd/region';
import type { Region } from '../../autograd/region-call';
import type { Engine } from '../../backend/engine';
import type { Observer } from '../../core/events';
import type { Module, Wrapper } from '../../nn/module';

/** The parts that a checkpointed module needs. */
export interface CheckpointContext {
  readonly engine: Engine;
  /** Gets a span 'recompute' for every second forward. */
  readonly observer: Observer;
}

/** How a module recovers its activations in backward. */
export interface CheckpointOptions {
  /** Kernels whose results are saved, and which do not run again. Default: none. */
  readonly keepResultsOf?: ReadonlySet<string> | undefined;
  /** Whether the saved tensors are on the host between forward and backward. Default false. */
  readonly offload?: boolean | undefined;
}

/**
 * From now on the module stores its inputs for backward instead of its operations' saved tensors, and its forward runs
 * again in backward; gradients are the same to the bit. Call it before the module becomes a unit: then one gather
 * serves both forward and backward. If you call it after, each second forward gathers again. Returns the module.
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

/** The wrapper that `checkpointed` puts around a module. */
export function checkpointWrapperOf(
  { engine, observer }: CheckpointContext,
  module: Module,
  options: CheckpointOptions & Pick<Region, 'meter'>,
): Wrapper {
  const around = (recompute: () => void): void => {
    const start = engine.clock.now();
    observer.entered?.('recompute', module.path);
    recompute();
    observer.span({ kind: 'span', name: 'recompute', module: module.path, start, end: engine.clock.now() });
  };
  return (inputs, next) => runRegion(engine, { ...options, module: module.path, around }, next, inputs);
}

/**
 * From now on the module's saved tensors are on the host from the end of its forward to the beginning of its backward.
 * Returns the module. Source: torch's offload_wrapper.
 */
export function offloaded<M extends Module>({ engine }: CheckpointContext, module: M): M {
  module.wrap((inputs, next) => runOffloaded(engine, module.path, next, inputs));
  return module;
}
