import type { Facts } from '../setting';
import { isSharded, STRATEGIES, type StrategyName, strategyWith } from '../strategies';
import { shardRanksOf } from './model-parallel';

/** The part of a config that the rules below read. */
interface Strategies {
  readonly parallel: {
    readonly strategy: StrategyName;
    readonly unitStrategies: readonly { readonly strategy: StrategyName }[];
    readonly reshardAfterForward: boolean | number | null;
    readonly mesh: unknown;
    readonly tp: number;
    readonly cp: number;
    readonly pp: number;
    readonly sequenceParallel: boolean;
  };
}

/** Whether a strategy shards parameters at rest, so that units are gathered. */
export function isGathered(strategy: StrategyName): boolean {
  return isSharded(strategy, 'parameter');
}

/** Whether any unit is gathered. */
export function anyGathered(config: Strategies): boolean {
  return strategiesOf(config).some(isGathered);
}

/** Returns the strategies of all units. */
export function strategiesOf({ parallel }: Strategies): StrategyName[] {
  return [parallel.strategy, ...parallel.unitStrategies.map(({ strategy }) => strategy)];
}

/** Returns a message that a setting has no effect because no unit is gathered; null if some units are gathered. */
export function unlessGathered(config: Strategies): string | null {
  return anyGathered(config) ? null : whole(config);
}

/** Returns a message that a setting has no effect because parameters are whole. */
export function whole({ parallel }: Strategies): string {
  return `has no effect under ${parallel.strategy}: parameters stay whole on every rank, and no unit frees them`;
}

/** Returns a message that a setting has no effect because the strategy has no replicas. */
export function withoutCopies({ parallel }: Strategies): string {
  return `has no effect under ${parallel.strategy}, which has no replicas`;
}

/** Whether parameters are whole from forward to backward. */
export function keepsToBackward(config: Strategies): boolean {
  const { reshardAfterForward } = config.parallel;
  if (reshardAfterForward !== null) return reshardAfterForward === false;
  return strategiesOf(config).every((name) => !isGathered(name) || !STRATEGIES[name].reshardAfterForward);
}

/** A warning about a hybrid strategy that has one replica; null if there is nothing to warn about. */
export function withoutMesh(
  strategy: StrategyName,
  { config, world: ranks }: Facts<Strategies>,
): string | null {
  const world = shardRanksOf(config, ranks);
  if (world === 1 || config.parallel.mesh !== null || !STRATEGIES[strategy].isHybrid) return null;
  return (
    `${strategy} without parallel.mesh has one replica, because all ranks are on one host: it has the same effect as ` +
    `${strategyWith(strategy, { isHybrid: false })}; give mesh { dpReplicate, dpShard } whose product is ${world}`
  );
}
