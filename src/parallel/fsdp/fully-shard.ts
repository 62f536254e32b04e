import type { Engine } from '../../backend/engine';
import { ConfigError } from '../../core/errors';
import type { Observer } from '../../core/events';
import type { ProcessGroup } from '../../dist/types';
import type { Module } from '../../nn/module';
import { runAsUnit } from '../run-as-unit';
import { FsdpSchedule, type PrefetchOptions } from './fsdp-schedule';
import { FsdpUnit } from './fsdp-unit';

/** What `fullyShard` works with; a rank has one of each. */
export interface ShardContext {
  readonly engine: Engine;
  readonly observer: Observer;
  /** The ranks to shard over. */
  readonly group: ProcessGroup;
}

/** Options of `fullyShard`. Source: torch.distributed.fsdp.fully_shard. */
export interface FullyShardOptions {
  /** true: FULL_SHARD; false: SHARD_GRAD_OP; left out: true for every unit but the root. */
  readonly reshardAfterForward?: boolean | undefined;
  /** The root's counts. Default true: the next unit is gathered during this one's forward; false: when it is called. */
  readonly forwardPrefetch?: boolean | undefined;
  /** The root's counts. Default BACKWARD_PRE. */
  readonly backwardPrefetch?: 'BACKWARD_PRE' | 'BACKWARD_POST' | null | undefined;
}

/**
 * Makes the module's parameters, less those of units below it, one unit: sharded at rest, gathered around forward and
 * backward, gradients reduced to shards. Call it from the inside out, the root last. Returns the module.
 * Throws: CONFIG when a parameter is too small in kind (a scalar), or the root comes too late.
 */
export function fullyShard<M extends Module>(
  module: M,
  context: ShardContext,
  options: FullyShardOptions = {},
): M {
  const { engine, group, observer } = context;
  const parameters = module.parameters().filter((parameter) => parameter.state.shardGroup === null);
  if (parameters.length === 0) return module;
  for (const parameter of parameters) {
    if (parameter.shape.length > 0 && parameter.size > 0) continue;
    throw new ConfigError(
      `${parameter.name} has shape [${parameter.shape.join(', ')}]; fullyShard cuts along dim 0: give it shape [1] at least`,
    );
  }
  const { reshardAfterForward } = options;
  const unit = new FsdpUnit({ engine, group, module, parameters, reshardAfterForward });
  runAsUnit({ engine, observer, module, parameters, hooks: unit });
  module.wrap((inputs, next) => {
    if (unit.schedule === null) makeRoot(engine, module, unit, prefetchOf(options));
    return next(...inputs);
  });
  return module;
}

/** All units of a model, in the order of their parameters. */
export function unitsOf(model: Module): FsdpUnit[] {
  return model.states().filter((state) => state instanceof FsdpUnit);
}

/** Brings a model's units back after an interrupted pass: each holds its shard and nothing else. */
export function abandonUnits(model: Module): void {
  const units = unitsOf(model);
  for (const schedule of new Set(units.map((unit) => unit.schedule))) schedule?.abandon();
  for (const unit of units) unit.abandon();
}

/** The unit that was called first becomes the root of all below it. Source: FSDPState._lazy_init. */
function makeRoot(engine: Engine, module: Module, root: FsdpUnit, prefetch: PrefetchOptions): void {
  const schedule = new FsdpSchedule(engine, root, prefetch);
  for (const unit of unitsOf(module)) {
    if (unit.schedule !== null) {
      throw new ConfigError(
        `unit "${unit.module}" ran on its own before its root "${root.module}" did; ` +
          `shard the root before the first forward, and call the root`,
      );
    }
    unit.join(schedule, unit === root);
  }
}

function prefetchOf(options: FullyShardOptions): PrefetchOptions {
  const { forwardPrefetch: forward = true, backwardPrefetch: backward = 'BACKWARD_PRE' } = options;
  return { forward, backward };
}
