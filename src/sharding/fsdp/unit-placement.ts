import { STRATEGIES, type StrategyName } from '../../config';
import { ConfigError, type HalfDType, isWhole, type Observer, ShardlabError } from '../../core';
import type { Engine } from '../../engine';
import type { Contents, DeviceMesh, ProcessGroup } from '../../wire';
import type { RowTable } from '../sparse/row-masks';

/**
 * The sharding spec of one unit: what is sharded, over which ranks, and for how long. A unit reads these properties and
 * never its strategy.
 */
export interface UnitPlacement {
  /** The strategy's name, for tables and messages. IGNORED: parameters are whole, and gradients are not reduced. */
  readonly strategy: StrategyName | 'IGNORED';
  /** The ranks over which the unit is sharded; null: this rank holds all elements. */
  readonly shardGroup: ProcessGroup | null;
  /** The ranks that hold the same elements as this rank; null: there are none. */
  readonly replicateGroup: ProcessGroup | null;
  /** Whether parameters are sharded at rest; otherwise they stay whole, and this rank's chunks are updated in place. */
  readonly shardsParameters: boolean;
  /** Whether gradients are reduced into a flat shard. If not, they are reduced into this rank's chunks of the whole gradients. */
  readonly shardsGradients: boolean;
  /**
   * Whether whole parameters are freed after forward. Source: fully_shard, which by default frees the parameters of all units
   * except the root.
   */
  readonly reshardAfterForward: boolean | 'allButRoot';
  /** Whether the gradients of all microbatches except the last of a step stay local, unless `parallel.noSync` says otherwise. */
  readonly accumulatesLocally: boolean;
  /** The ranks over which parameters are sharded between forward and backward; null: `shardGroup`. */
  readonly postForwardGroup: ProcessGroup | null;
}

/** The settings of a unit; its parameters, gradients and reductions share them. */
export interface UnitSpec {
  readonly engine: Engine;
  readonly observer: Pick<Observer, 'reached'>;
  /** The module's full name. */
  readonly module: string;
  /** What gathers and reductions carry; see [Note: contents]. */
  readonly contents: Contents;
  readonly placement: UnitPlacement;
  /** Whether shards are stored on the host; parameter shards are copied to the device only for gathers. */
  readonly onHost: boolean;
  /**
   * The dtype in which parameters are sent. Whole parameters are rounded to it, and gradients too at the end of backward. null:
   * float32, without rounding.
   */
  readonly half: HalfDType | null;
  /** The dtype in which gradients are sent; null: float32. */
  readonly gradHalf: HalfDType | null;
  /** Whether sums of reduced gradients are also rounded to `gradHalf`. */
  readonly keepsGradHalf: boolean;
  /** Whether a gradient that no rank has counts as zeros. Source: FSDP updates a flat parameter as one tensor. */
  readonly missingAreZeros: boolean;
  /** The unit's parameters for which only the touched rows of the gradient are sent. */
  readonly tables: readonly RowTable[];
  /** The group whose rank 0 sends initial values to all its ranks; null: each rank makes its own initial values. */
  readonly syncGroup: ProcessGroup | null;
}

/**
 * Whether whole parameters are freed after forward. If this is a number, they are resharded over this number of ranks. The
 * default depends on the strategy.
 */
export type ReshardAfterForward = boolean | number | null | undefined;

/** The ranks over which units can be sharded or replicated. */
export interface PlacementRanks {
  /** All data-parallel ranks. */
  readonly group: ProcessGroup;
  /** The mesh of hybrid strategies; its first axis is the replicas, its second axis the shards. Default: one replica. */
  readonly mesh?: DeviceMesh | undefined;
  readonly rows: RowsOfRanks;
}

/** Returns a strategy's placement on these ranks. Throws: CONFIG if `reshardAfterForward` does not divide the shard group. */
export function placementOf(
  strategy: StrategyName,
  reshardAfterForward: ReshardAfterForward,
  ranks: PlacementRanks,
): UnitPlacement {
  const { shardedAtRest, isHybrid, reshardAfterForward: reshards, accumulatesLocally } = STRATEGIES[strategy];
  const { group, mesh } = ranks;
  const [copies, shards] = mesh?.axisNames ?? [];
  const isCut = shardedAtRest.length > 0;
  const inCopies = isHybrid && mesh !== undefined && copies !== undefined && shards !== undefined;
  const shardGroup = !isCut ? null : inCopies ? mesh.get(shards) : group;
  const shardsParameters = shardedAtRest.includes('parameter');
  const wanted = shardsParameters ? reshardAfterForward : null;
  const byStrategy = reshards ? 'allButRoot' : false;
  return {
    strategy,
    shardGroup,
    replicateGroup: !isCut ? group : inCopies && mesh.sizeOf(copies) > 1 ? mesh.get(copies) : null,
    shardsParameters,
    shardsGradients: shardedAtRest.includes('gradient'),
    reshardAfterForward: typeof wanted === 'number' ? wanted > 1 : (wanted ?? byStrategy),
    accumulatesLocally,
    postForwardGroup: typeof wanted === 'number' ? postForwardGroup(wanted, shardGroup, ranks.rows) : null,
  };
}

/** The placement of ignored modules: parameters are whole on every rank, and each rank uses its own gradients. */
export const IGNORED: UnitPlacement = {
  strategy: 'IGNORED',
  shardGroup: null,
  replicateGroup: null,
  shardsParameters: false,
  shardsGradients: false,
  reshardAfterForward: false,
  accumulatesLocally: false,
  postForwardGroup: null,
};

/**
 * Returns a group of `numRanks` ranks. As in fully_shard, 1 means the same as `reshardAfterForward: false`, and the size of
 * `group` means the same as true; both return null.
 */
function postForwardGroup(
  numRanks: number,
  group: ProcessGroup | null,
  rows: RowsOfRanks,
): ProcessGroup | null {
  if (group === null || numRanks === 1 || numRanks === group.size) return null;
  if (isWhole(numRanks, 2) && group.size % numRanks === 0) return rows.of(group, numRanks);
  const divisors = Array.from({ length: group.size }, (_, i) => i + 1).filter((n) => group.size % n === 0);
  throw new ConfigError(
    `reshardAfterForward is ${numRanks}, but the unit is sharded over ${group.size} ranks; ` +
      `give true, false, or a divisor of ${group.size}: ${divisors.join(', ')}`,
  );
}

/** Makes and stores groups of consecutive ranks of a group. All ranks must request these groups in the same order. */
export class RowsOfRanks {
  readonly #rows = new Map<ProcessGroup, Map<number, ProcessGroup>>();

  /** Returns the group of `numRanks` consecutive ranks that contains this rank; `numRanks` must divide the group's size. */
  of(group: ProcessGroup, numRanks: number): ProcessGroup {
    const known = this.#rows.get(group) ?? new Map<number, ProcessGroup>();
    this.#rows.set(group, known);
    const row = known.get(numRanks) ?? makeRow(group, numRanks);
    known.set(numRanks, row);
    return row;
  }
}

function makeRow(group: ProcessGroup, numRanks: number): ProcessGroup {
  let own: ProcessGroup | null = null;
  for (let first = 0; first < group.size; first += numRanks) {
    const row = group.subgroup(Array.from({ length: numRanks }, (_, i) => first + i));
    own ??= row;
  }
  if (own !== null) return own;
  throw new ShardlabError('INTERNAL', `no row of ${numRanks} ranks of ${group.name} contains ${group.rank}`);
}
