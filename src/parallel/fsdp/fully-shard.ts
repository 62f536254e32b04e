import type { Engine } from '../../backend/engine';
import { ConfigError } from '../../core/errors';
import type { Observer } from '../../core/events';
import type { ProcessGroup } from '../../dist/types';
import type { Module } from '../../nn/module';
import type { Parameter } from '../../nn/parameter';
import { runAsUnit } from '../run-as-unit';
import { modulesToWrap, type WrapPolicy } from '../wrap-policy';
import type { PrefetchOptions } from './fsdp-schedule';
import { FsdpUnit } from './fsdp-unit';
import { ShardedModule } from './sharded-module';

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
 * Throws: CONFIG for a scalar or frozen parameter; later, at the first forward, when the root came too late.
 */
export function fullyShard<M extends Module>(
  module: M,
  context: ShardContext,
  options: FullyShardOptions = {},
): M {
  const { engine, group, observer } = context;
  const parameters = module.parameters().filter((parameter) => parameter.state.shardGroup === null);
  for (const parameter of parameters) requireShardable(parameter);
  const { reshardAfterForward } = options;
  const unit =
    parameters.length === 0 ? null : new FsdpUnit({ engine, group, module, parameters, reshardAfterForward });
  const sharded = new ShardedModule(engine, module, unit, prefetchOf(options));
  runAsUnit({ engine, observer, module, parameters, hooks: sharded });
  module.wrap((inputs, next) => {
    sharded.prepare();
    return next(...inputs);
  });
  return module;
}

/** Makes the modules that a policy chooses units, innermost first, and the model the root. Returns the model. */
export function fullyShardByPolicy<M extends Module>(
  model: M,
  policy: WrapPolicy,
  context: ShardContext,
  options: FullyShardOptions = {},
): M {
  for (const module of modulesToWrap(model, policy)) fullyShard(module, context, options);
  return fullyShard(model, context, options);
}

function requireShardable({ name, shape, requiresGrad }: Parameter): void {
  if (shape.length === 0) {
    throw new ConfigError(`${name} is a scalar; fullyShard cuts along dim 0: give it shape [1]`);
  }
  if (!requiresGrad) {
    throw new ConfigError(
      `${name} is frozen (requiresGrad false), and a unit's flat shard is updated as one; ` +
        'shard the modules that train, and leave out those that do not',
    );
  }
}

function prefetchOf(options: FullyShardOptions): PrefetchOptions {
  const { forwardPrefetch: forward = true, backwardPrefetch: backward = 'BACKWARD_PRE' } = options;
  return { forward, backward };
}
