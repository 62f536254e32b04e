import { z } from 'zod';

/** A kind of values that training stores between steps. */
export type ModelState = 'parameter' | 'gradient' | 'optimizer';

/** The properties of a strategy. Code for several strategies reads these properties, never the name. */
export interface StrategyProperties {
  /** The states that are sharded between steps, so that each of N ranks holds 1/N; other states are whole on every rank. */
  readonly shardedAtRest: readonly ModelState[];
  /** Whether whole parameters are freed between a unit's forward and backward. */
  readonly reshardAfterForward: boolean;
  /** Whether shards are replicated: sharded over one axis of a mesh, replicated over the other. */
  readonly isHybrid: boolean;
  /** Whether gradients of all microbatches except the last stay local, unless parallel.noSync is set. */
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

/** Source: torch.distributed.fsdp.ShardingStrategy; ZERO_1 and ZERO_2 are DeepSpeed's stages, with whole parameters. */
export const strategySchema = z.enum([
  'NO_SHARD',
  'ZERO_1',
  'ZERO_2',
  'SHARD_GRAD_OP',
  'FULL_SHARD',
  'HYBRID_SHARD',
  '_HYBRID_SHARD_ZERO2',
]);

export type StrategyName = z.output<typeof strategySchema>;

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
