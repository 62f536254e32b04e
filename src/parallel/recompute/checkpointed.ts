import { runOffloaded } from '../../autograd/offloaded';
import { runRegion } from '../../autograd/region';
import type { Region } from '../../autograd/region-call';
import type { Engine } from '../../backend/engine';
import type { Observer } from '../../core/events';
import type { Module, Wrapper } from '../../nn/module';

/** What a checkpointed module works with. */
export interface CheckpointContext {
  readonly engine: Engine;
  /** Gets a span 'recompute' for every second forward. */
  readonly observer: Observer;
}

/** How a module's activations come back in backward. */
export interface CheckpointOptions {
  /** Kernels whose results are saved, and which do not run again. Default: none. */
  readonly keepResultsOf?: ReadonlySet<string> | undefined;
  /** Whether what is saved lies on the host between forward and backward. Default false. */
  readonly offload?: boolean | undefined;
}

/**
 * From now on the module keeps its inputs for backward instead of what its operations save, and its forward runs again
 * in backward; gradients are the same to the bit. Call it before the module becomes a unit (checkpoint inside of the unit:
 * parameters are gathered once for both) rather than after (each second forward gathers anew). Returns the module.
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

/** What `checkpointed` puts around a module. */
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
 * From now on what the module saves for backward lies on the host from the end of its forward to the beginning of its
 * backward. Returns the module. Source: torch's offload_wrapper.
 */
export function offloaded<M extends Module>({ engine }: CheckpointContext, module: M): M {
  module.wrap((inputs, next) => runOffloaded(engine, module.path, next, inputs));
  return module;
}
