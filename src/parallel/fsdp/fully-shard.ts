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
import { modulesToWrap, type WrapPolicy } from '../wrap-policy';
import type { PrefetchOptions } from './fsdp-schedule';
import { FsdpUnit } from './fsdp-unit';
import { RowsOfRanks } from './rows-of-ranks';
import { ShardedModule } from './sharded-module';
import { IGNORED, placementOf, type ReshardAfterForward, type UnitPlacement } from './unit-placement';
import { UnitState } from './unit-state';

/** What `fullyShard` works with; a rank has one of each. */
export interface ShardContext {
  readonly engine: Engine;
  readonly observer: Observer;
  /** The ranks to shard over. */
  readonly group: ProcessGroup;
  /** The same ranks as copies (first axis) times shards, for hybrid strategies. */
  readonly mesh?: DeviceMesh | undefined;
  /** Groups that units share; default: made for each call. */
  readonly rows?: RowsOfRanks | undefined;
}

/** Options of `fullyShard`. Source: torch.distributed.fsdp.fully_shard. */
export interface FullyShardOptions {
  /** Default FULL_SHARD, or HYBRID_SHARD on a mesh of two axes. */
  readonly strategy?: StrategyName | undefined;
  /** true: FULL_SHARD; false: SHARD_GRAD_OP; n: kept over n consecutive ranks; left out: true for every unit but the root. */
  readonly reshardAfterForward?: ReshardAfterForward;
  /** The root's counts. Default true: the next unit is gathered during this one's forward; false: when it is called. */
  readonly forwardPrefetch?: boolean | undefined;
  /** The root's counts. Default BACKWARD_PRE. */
  readonly backwardPrefetch?: 'BACKWARD_PRE' | 'BACKWARD_POST' | null | undefined;
  /** The root's counts. Default true: at most two gathers on their way. */
  readonly limitAllGathers?: boolean | undefined;
  /** Modules below whose parameters stay whole and whose gradients are not reduced. */
  readonly ignoredModules?: readonly Module[] | undefined;
  /** Sends rank 0's values to all before they are cut. */
  readonly syncModuleStates?: boolean | undefined;
  /** Default float32. */
  readonly precision?: MixedPrecision | undefined;
  /** Only rows of tables, and only experts, that some rank touched send their gradients. Source: DeepSpeed's sparse_gradients. */
  readonly sparseGradients?: boolean | undefined;
  /** Parameters that no rank has a gradient of are updated as by zeros. Default false: they stay as they are. Source: FSDP's flat parameter. */
  readonly missingAreZeros?: boolean | undefined;
  /** Shards of parameters and gradients lie on the host, and the optimizer steps there. Source: CPUOffloadPolicy. */
  readonly offloadParameters?: boolean | undefined;
}

/**
 * Makes the module's parameters, less those of units below it, one unit: sharded at rest, gathered around forward and
 * backward, gradients reduced to shards. Call it from the inside out, the root last. Returns the module.
 * Parameters whose values are not there yet never are whole where the placement cuts them. See [Note: deferred values].
 * Throws: CONFIG for a scalar parameter, and where a module outside reads a parameter too; later, at the first forward, when
 * the root came too late.
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
 * Leaves the module's parameters, less those of units below it, whole and each rank's own: no gradient is reduced. A second
 * call changes nothing. Source: ignored_modules of FullyShardedDataParallel.
 */
export function ignoreModule(module: Module, context: ShardContext, options: FullyShardOptions = {}): void {
  if (freeParameters(module).length > 0) makeUnit(module, IGNORED, context, options);
}

/** Makes the modules that a policy chooses units, innermost first, and the model the root. Returns the model. */
export function fullyShardByPolicy<M extends Module>(
  model: M,
  policy: WrapPolicy,
  context: ShardContext,
  options: FullyShardOptions = {},
): M {
  const { ignoredModules = [] } = options;
  for (const module of modulesToWrap(model, policy, { ignoredModules })) fullyShard(module, context, options);
  return fullyShard(model, context, options);
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
  throw new ConfigError(`${name} is a scalar; fullyShard cuts along dim 0: give it shape [1]`);
}

function prefetchOf(options: FullyShardOptions): PrefetchOptions {
  const { forwardPrefetch: forward = true, backwardPrefetch: backward = 'BACKWARD_PRE' } = options;
  return { forward, backward, limit: options.limitAllGathers ?? true };
}
