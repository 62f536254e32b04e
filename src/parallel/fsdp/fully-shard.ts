import type { Engine } from '../../backend/engine';
import type { StrategyName } from '../../config/strategies';
import { ConfigError } from '../../core/errors';
import type { Observer } from '../../core/events';
import type { DeviceMesh } from '../../dist/device-mesh';
import type { ProcessGroup } from '../../dist/types';
import type { Module } from '../../nn/module';
import type { Parameter } from '../../nn/parameter';
import { requireSelfContained } from '../../nn/self-contained';
import { castBoundaries } from '../precision/cast-boundaries';
import { FULL_PRECISION, halfOf, type MixedPrecision } from '../precision/mixed-precision';
import { runAsUnit } from '../run-as-unit';
import { rowTables } from '../sparse/row-tables';
import type { PrefetchOptions } from './fsdp-schedule';
import { FsdpUnit } from './fsdp-unit';
import { RowsOfRanks } from './rows-of-ranks';
import { ShardedModule } from './sharded-module';
import { IGNORED, placementOf, type ReshardAfterForward, type UnitPlacement } from './unit-placement';
import { UnitState } from './unit-state';

/** The parts that `fullyShard` needs; a rank has one of each. */
export interface ShardContext {
  readonly engine: Engine;
  readonly observer: Observer;
  /** The ranks to shard over. */
  readonly group: ProcessGroup;
  /** The same ranks as replicas (first axis) times shards, for hybrid strategies. */
  readonly mesh?: DeviceMesh | undefined;
  /** Groups that units share; default: made for each call. */
  readonly rows?: RowsOfRanks | undefined;
}

/** Options of `fullyShard`. Source: torch.distributed.fsdp.fully_shard. */
export interface FullyShardOptions {
  /** Default FULL_SHARD, or HYBRID_SHARD on a mesh of two axes. */
  readonly strategy?: StrategyName | undefined;
  /**
   * true: FULL_SHARD; false: SHARD_GRAD_OP; n: resharded over n consecutive ranks; default: true for every unit except
   * the root.
   */
  readonly reshardAfterForward?: ReshardAfterForward;
  /**
   * Only the root's setting counts. Default true: the next unit is gathered during this unit's forward; false: when it
   * is called.
   */
  readonly forwardPrefetch?: boolean | undefined;
  /** Only the root's setting counts. Default BACKWARD_PRE. */
  readonly backwardPrefetch?: 'BACKWARD_PRE' | 'BACKWARD_POST' | null | undefined;
  /** Only the root's setting counts. Default true: at most two gathers in flight. */
  readonly limitAllGathers?: boolean | undefined;
  /** Modules inside whose parameters stay whole and whose gradients are not reduced. */
  readonly ignoredModules?: readonly Module[] | undefined;
  /** Sends rank 0's values to all ranks before sharding. */
  readonly syncModuleStates?: boolean | undefined;
  /** Default float32. */
  readonly precision?: MixedPrecision | undefined;
  /** Sends gradients only for table rows and experts that some rank touched. Source: DeepSpeed's sparse_gradients. */
  readonly sparseGradients?: boolean | undefined;
  /**
   * Updates parameters without a gradient on any rank as if the gradient were zero. Default false: they do not change.
   * Source: FSDP's flat parameter.
   */
  readonly missingAreZeros?: boolean | undefined;
  /** Stores shards of parameters and gradients on the host, and runs the optimizer there. Source: CPUOffloadPolicy. */
  readonly offloadParameters?: boolean | undefined;
}

/**
 * Makes one unit of the module's parameters, without those of units inside it: sharded at rest, gathered around forward
 * and backward, gradients reduced to shards. Call it from the inside out, the root last. Returns the module. Deferred
 * parameters are initialised shard by shard; the full tensor is never made. See [Note: deferred values].
 * Throws: CONFIG for a scalar parameter, and if a module outside also reads a parameter; later, at the first forward,
 * when the root was sharded too late.
 */
export function fullyShard<M extends Module>(
  module: M,
  context: ShardContext,
  options: FullyShardOptions = {},
): M {
  const { mesh, rows = new RowsOfRanks() } = context;
  const isMesh = mesh !== undefined && mesh.axisNames.length > 1;
  const { strategy = isMesh ? 'HYBRID_SHARD' : 'FULL_SHARD' } = options;
  const placement = placementOf(strategy, options.reshardAfterForward, { ...context, rows });
  for (const ignored of options.ignoredModules ?? []) {
    if (freeParameters(ignored).length > 0) makeUnit(ignored, IGNORED, context, options);
  }
  makeUnit(module, placement, context, options);
  return module;
}

/**
 * Leaves the module's parameters, without those of units inside it, whole and local to each rank: no gradient is
 * reduced. A second call has no effect. Source: ignored_modules of FullyShardedDataParallel.
 */
export function ignoreModule(module: Module, context: ShardContext, options: FullyShardOptions = {}): void {
  if (freeParameters(module).length > 0) makeUnit(module, IGNORED, context, options);
}

function makeUnit(
  module: Module,
  placement: UnitPlacement,
  context: ShardContext,
  options: FullyShardOptions,
): void {
  const { engine, observer } = context;
  const parameters = freeParameters(module);
  if (placement.shardGroup !== null) for (const parameter of parameters) requireShardable(parameter);
  if (parameters.length > 0)
    requireSelfContained(module, placement === IGNORED ? 'ignoredModules' : 'fullyShard');
  const syncs = options.syncModuleStates === true && placement !== IGNORED && context.group.size > 1;
  const syncGroup = syncs ? context.group : undefined;
  const { offloadParameters: offloadsParameters, missingAreZeros } = options;
  const precision = placement === IGNORED ? FULL_PRECISION : (options.precision ?? FULL_PRECISION);
  const tables = options.sparseGradients === true ? rowTables(module) : [];
  const unit =
    parameters.length === 0
      ? null
      : new FsdpUnit({
          ...{ engine, module, parameters, placement, precision },
          ...{ offloadsParameters, missingAreZeros, tables, syncGroup },
        });
  const sharded = new ShardedModule(engine, module, unit, prefetchOf(options));
  const { members = [], numTrained = 0 } = unit ?? {};
  const declared = halfOf(precision.paramDtype) ?? undefined;
  castBoundaries(engine, module, precision);
  runAsUnit({ engine, observer, module, parameters: members, numTrained, hooks: sharded, declared });
  module.wrap((inputs, next) => {
    sharded.prepare();
    return next(...inputs);
  });
}

/** Parameters that are in no unit yet. */
function freeParameters(module: Module): Parameter[] {
  return module.parameters().filter(({ state }) => !(state instanceof UnitState));
}

function requireShardable({ name, shape }: Parameter): void {
  if (shape.length > 0) return;
  throw new ConfigError(`${name} is a scalar, but fullyShard shards along dim 0: give it shape [1]`);
}

function prefetchOf(options: FullyShardOptions): PrefetchOptions {
  const { forwardPrefetch: forward = true, backwardPrefetch: backward = 'BACKWARD_PRE' } = options;
  return { forward, backward, limit: options.limitAllGathers ?? true };
}
