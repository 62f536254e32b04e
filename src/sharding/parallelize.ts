import { type ParallelConfig, STRATEGIES, type StrategyProperties, type TrainConfig } from '../config';
import { ShardlabError } from '../core';
import type { Module } from '../nn';
import { type DeviceMesh, initDeviceMesh } from '../wire';
import { DDP } from './ddp/distributed-data-parallel';
import { fullyShard, ignoreModule, type ShardContext } from './fsdp/fully-shard';
import { RowsOfRanks } from './fsdp/unit-placement';
import { abandonUnits, unitsOf, withoutSync } from './fsdp/units-of';
import { policyOf } from './precision/mixed-precision';
import { isInUnits, planUnits } from './unit-plan';
import { wrapPolicyOf } from './wrap-policy';

/** A model that trains on several ranks. */
export interface ParallelModel {
  readonly model: Module;
  readonly properties: StrategyProperties;
  /** Runs a microbatch that is not the last of its step; gradients that may stay local are not reduced. */
  accumulate<T>(work: () => T): T;
  /** Runs work whose gradients stay local; the gradients add up until a backward outside of `work`. */
  keepLocal<T>(work: () => T): T;
  /** Frees an interrupted pass's gradients, whole parameters and work in flight, but not parameters or shards at rest. */
  abandon(): void;
  dispose(): void;
}

/** The settings that say how a model is distributed over ranks. */
export type ParallelSettings = Pick<TrainConfig, 'parallel' | 'mixedPrecision' | 'offload'>;

/** Applies a strategy to a model in place. Throws: CONFIG, MESH if the settings do not fit the model or the ranks. */
export function parallelize(model: Module, settings: ParallelSettings, context: ShardContext): ParallelModel {
  return isInUnits(settings.parallel)
    ? inUnits(model, settings, context)
    : replicated(model, settings, context);
}

function replicated(model: Module, settings: ParallelSettings, context: ShardContext): ParallelModel {
  const { parallel } = settings;
  const properties = STRATEGIES[parallel.strategy];
  const policy = wrapPolicyOf(parallel.wrap, model);
  const ddp = new DDP(model, context, {
    bucketBytes: parallel.bucketBytes,
    policy,
    precision: policyOf(settings),
    sparseGradients: parallel.sparseGradients,
    commHook: parallel.commHook,
  });
  const isLocal = parallel.noSync ?? properties.accumulatesLocally;
  return {
    model,
    properties,
    accumulate: (work) => (isLocal ? ddp.noSync(work) : work()),
    keepLocal: (work) => ddp.noSync(work),
    abandon: () => ddp.abandon(),
    dispose: () => ddp.dispose(),
  };
}

function inUnits(model: Module, settings: ParallelSettings, context: ShardContext): ParallelModel {
  const { parallel } = settings;
  shardUnits(model, settings, { ...context, mesh: meshOf(parallel, context), rows: new RowsOfRanks() });
  const units = unitsOf(model);
  const local = units.filter(({ placement }) => parallel.noSync ?? placement.accumulatesLocally);
  return {
    model,
    properties: STRATEGIES[parallel.strategy],
    accumulate: (work) => withoutSync(local, work),
    keepLocal: (work) => withoutSync(units, work),
    abandon: () => abandonUnits(model),
    dispose() {
      for (const unit of units) unit.dispose();
      for (const buffer of model.buffers()) buffer.free();
    },
  };
}

function shardUnits(model: Module, settings: ParallelSettings, context: ShardContext): void {
  const { parallel, offload } = settings;
  const options = {
    forwardPrefetch: parallel.forwardPrefetch,
    backwardPrefetch: parallel.backwardPrefetch,
    limitAllGathers: parallel.limitAllGathers,
    reshardAfterForward: parallel.reshardAfterForward,
    syncModuleStates: parallel.syncModuleStates,
    offloadParameters: offload.parameters,
    sparseGradients: parallel.sparseGradients,
  };
  const policy = policyOf(settings);
  for (const { module, strategy } of planUnits(model, parallel)) {
    if (strategy === 'IGNORED') ignoreModule(module, context, options);
    else {
      const precision = module === model ? policy : { ...policy, outputDtype: null };
      fullyShard(module, context, { ...options, strategy, precision });
    }
  }
}

/** Returns the mesh of replicas and shards, if a unit has a hybrid strategy. */
function meshOf(parallel: ParallelConfig, { group }: ShardContext): DeviceMesh | undefined {
  const strategies = [parallel.strategy, ...parallel.unitStrategies.map(({ strategy }) => strategy)];
  const isHybrid = strategies.some((strategy) => STRATEGIES[strategy].isHybrid);
  if (!isHybrid || parallel.mesh === null) return undefined;
  const { dpReplicate, dpShard } = parallel.mesh;
  const [meshSize, { tp, pp }] = [dpReplicate * dpShard, parallel];
  if (tp * pp > 1 && meshSize !== group.size) {
    throw new ShardlabError(
      'MESH',
      `parallel.mesh dpReplicate(${dpReplicate}) x dpShard(${dpShard}) = ${meshSize}, but parallel.tp ${tp}${pp === 1 ? '' : ` and pp ${pp}`} leaves ${group.size} ranks ` +
        `to shard over; give numbers whose product is ${group.size}, or train on ${meshSize * tp * pp} ranks`,
      { details: { dpReplicate, dpShard, tp, pp, ranks: group.size } },
    );
  }
  return initDeviceMesh(group, [dpReplicate, dpShard], ['dpReplicate', 'dpShard']);
}
