import type { ParallelConfig, StrategyName } from '../config/parallel-config';
import type { Module } from '../nn/module';
import { DDP } from './ddp/distributed-data-parallel';
import { fullyShardByPolicy, type ShardContext } from './fsdp/fully-shard';
import { abandonUnits, unitsOf } from './fsdp/units-of';
import { type WrapPolicy, wrapPolicyOf } from './wrap-policy';

/** What a training step keeps. */
export type ModelState = 'parameter' | 'gradient' | 'optimizer';

/** What a strategy promises; code that serves several strategies asks for these and never for a name. */
export interface StrategyProperties {
  /** What each rank holds 1/N of between steps; the rest is whole on every rank. */
  readonly shardedAtRest: readonly ModelState[];
  /** Whether whole parameters are freed between a unit's forward and backward. */
  readonly reshardAfterForward: boolean;
  /** Whether shards exist in copies: sharded over one axis of a mesh, replicated over the other. */
  readonly isHybrid: boolean;
  /** Whether gradients of micro-batches but the last stay local unless a setting says otherwise. */
  readonly accumulatesLocally: boolean;
}

const ALL: readonly ModelState[] = ['parameter', 'gradient', 'optimizer'];

const NOTHING = {
  shardedAtRest: [],
  reshardAfterForward: false,
  isHybrid: false,
  accumulatesLocally: true,
} as const;
const EVERYTHING = {
  shardedAtRest: ALL,
  reshardAfterForward: true,
  isHybrid: false,
  accumulatesLocally: false,
} as const;

/** Source: torch.distributed.fsdp.ShardingStrategy; Rajbhandari et al. 2020 for ZERO_1 (P_os) and ZERO_2 (P_os+g). */
export const STRATEGIES: Readonly<Record<StrategyName, StrategyProperties>> = {
  NO_SHARD: NOTHING,
  ZERO_1: { ...NOTHING, shardedAtRest: ['optimizer'] },
  ZERO_2: { ...NOTHING, shardedAtRest: ['gradient', 'optimizer'], accumulatesLocally: false },
  SHARD_GRAD_OP: { ...EVERYTHING, reshardAfterForward: false },
  FULL_SHARD: EVERYTHING,
  HYBRID_SHARD: { ...EVERYTHING, isHybrid: true },
  _HYBRID_SHARD_ZERO2: { ...EVERYTHING, isHybrid: true, reshardAfterForward: false },
};

/** A model that trains on several ranks. */
export interface ParallelModel {
  readonly model: Module;
  readonly properties: StrategyProperties;
  /** Runs a micro-batch that is not a step's last; where gradients can stay local, they are not reduced. */
  accumulate<T>(work: () => T): T;
  /** Lets go of an interrupted pass: gradients, whole copies, what was on its way. Parameters and their shards stay. */
  abandon(): void;
  dispose(): void;
}

/** Puts a strategy around a model, in place. */
export function parallelize(model: Module, config: ParallelConfig, context: ShardContext): ParallelModel {
  const properties = STRATEGIES[config.strategy];
  const policy = wrapPolicyOf(config.wrap, model);
  return properties.shardedAtRest.includes('parameter')
    ? sharded(model, config, context, policy, properties)
    : replicated(model, config, context, policy, properties);
}

function replicated(
  model: Module,
  config: ParallelConfig,
  context: ShardContext,
  policy: WrapPolicy,
  properties: StrategyProperties,
): ParallelModel {
  const ddp = new DDP(model, context, { bucketBytes: config.bucketBytes, policy });
  return {
    model,
    properties,
    accumulate: (work) => ddp.noSync(work),
    abandon: () => ddp.abandon(),
    dispose: () => model.dispose(),
  };
}

function sharded(
  model: Module,
  config: ParallelConfig,
  context: ShardContext,
  policy: WrapPolicy,
  properties: StrategyProperties,
): ParallelModel {
  const { forwardPrefetch, backwardPrefetch } = config;
  // true is left out so that the root stays gathered after forward, as fully_shard does by default.
  const reshardAfterForward = properties.reshardAfterForward ? undefined : false;
  const options = { reshardAfterForward, forwardPrefetch, backwardPrefetch };
  fullyShardByPolicy(model, policy, context, options);
  return {
    model,
    properties,
    accumulate: (work) => work(),
    abandon: () => abandonUnits(model),
    dispose() {
      for (const unit of unitsOf(model)) unit.dispose();
    },
  };
}
