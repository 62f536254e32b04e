import { runRegion } from '../../autograd/region';
import type { Engine } from '../../backend/engine';
import type { Observer } from '../../core/events';
import { now } from '../../core/units';
import type { Module } from '../../nn/module';

/** What a checkpointed module works with. */
export interface CheckpointContext {
  readonly engine: Engine;
  /** Gets a span 'recompute' for every second forward. */
  readonly observer: Observer;
}

/**
 * From now on the module keeps its inputs for backward instead of what its operations save, and its forward runs again
 * in backward; gradients are the same to the bit. Call it before the module becomes a unit (checkpoint inside of the unit:
 * parameters are gathered once for both) rather than after (each second forward gathers anew). Returns the module.
 * Source: torch's checkpoint_wrapper.
 */
export function checkpointed<M extends Module>({ engine, observer }: CheckpointContext, module: M): M {
  const around = (recompute: () => void): void => {
    const start = now();
    recompute();
    observer.span({ kind: 'span', name: 'recompute', module: module.path, start, end: now() });
  };
  module.wrap((inputs, next) => runRegion(engine, { module: module.path, around }, next, inputs));
  return module;
}
