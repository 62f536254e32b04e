import type { ParallelConfig } from '../../../src/config/settings/parallel';
import { type ModelState, STRATEGIES, type StrategyName } from '../../../src/config/strategies';

/** The settings besides the strategy that determine the placement of units and their communication. */
export type RuleSettings = Partial<
  Pick<ParallelConfig, 'mesh' | 'reshardAfterForward' | 'forwardPrefetch' | 'backwardPrefetch' | 'noSync'>
> & {
  readonly world: number;
  /** Microbatches per step. Default 1. */
  readonly accumulation?: number | undefined;
  /** Whether whole parameters are rounded copies of a float32 shard. */
  readonly roundsParameters?: boolean | undefined;
  /** Whether shards of parameters and gradients are on the host. */
  readonly offloadsParameters?: boolean | undefined;
  /** Whether all optimizer states are on the host; those of shards on the host always are. */
  readonly offloadsOptimizer?: boolean | undefined;
};

/** The rule of a strategy for one unit on a number of ranks. */
export interface UnitRule {
  /** Ranks that share the unit's elements. */
  readonly numShards: number;
  /** Ranks that hold the same elements and agree on their gradients. */
  readonly numCopies: number;
  /** The states that are sharded at rest. */
  readonly cuts: (state: ModelState) => boolean;
  /** Whether whole parameters exist only around forward and backward. */
  readonly isGatheredForUse: boolean;
  /** Whether whole parameters are freed after forward. */
  readonly reshards: boolean;
  /** Ranks over which parameters are sharded between forward and backward; null: as at rest. */
  readonly postForward: number | null;
  /** Whether chunks have their own array at rest beside, or in place of, the whole tensors. */
  readonly hasMaster: boolean;
  /** Gradients reduced in a step: once, or after every microbatch. */
  readonly reductions: number;
}

/** The rule of a unit. `isRoot`: by default the root stays whole after forward. */
export function ruleOf(
  strategy: StrategyName | 'IGNORED',
  isRoot: boolean,
  settings: RuleSettings,
): UnitRule {
  const { world, mesh = null, reshardAfterForward: asked = null, noSync = null } = settings;
  const { accumulation = 1, roundsParameters = false } = settings;
  if (strategy === 'IGNORED') return { ...WHOLE, numCopies: 1, hasMaster: false, reductions: 0 };
  const { shardedAtRest, isHybrid, reshardAfterForward, accumulatesLocally } = STRATEGIES[strategy];
  const reductions = (noSync ?? accumulatesLocally) ? 1 : accumulation;
  if (shardedAtRest.length === 0)
    return { ...WHOLE, numCopies: world, hasMaster: roundsParameters, reductions };
  const numShards = isHybrid && mesh !== null ? mesh.dpShard : world;
  const isGatheredForUse = shardedAtRest.includes('parameter');
  const isBetween = typeof asked === 'number' && asked > 1 && asked < numShards;
  const reshards = asked === null ? reshardAfterForward && !isRoot : asked !== false && asked !== 1;
  return {
    numShards,
    numCopies: isHybrid && mesh !== null ? mesh.dpReplicate : 1,
    cuts: (state) => shardedAtRest.includes(state),
    isGatheredForUse,
    reshards: isGatheredForUse && reshards,
    postForward: isGatheredForUse && isBetween ? asked : null,
    hasMaster: isGatheredForUse || roundsParameters,
    reductions,
  };
}

const WHOLE = {
  numShards: 1,
  cuts: () => false,
  isGatheredForUse: false,
  reshards: false,
  postForward: null,
} as const;
