import type { StrategyName } from '../../config/strategies';
import { strictNames } from '../../config/strict-names';

/** Source: torch.distributed.fsdp.ShardingStrategy; ZERO_1 and ZERO_2 are DeepSpeed's; FSDP does not have them. */
export const ShardingStrategy = strictNames('ShardingStrategy', {
  FULL_SHARD: 'FULL_SHARD',
  SHARD_GRAD_OP: 'SHARD_GRAD_OP',
  NO_SHARD: 'NO_SHARD',
  HYBRID_SHARD: 'HYBRID_SHARD',
  _HYBRID_SHARD_ZERO2: '_HYBRID_SHARD_ZERO2',
} as const satisfies Partial<Record<StrategyName, StrategyName>>);

export type ShardingStrategy = (typeof ShardingStrategy)[keyof typeof ShardingStrategy];

/** Source: torch.distributed.fsdp.BackwardPrefetch; none is null. */
export const BackwardPrefetch = strictNames('BackwardPrefetch', {
  BACKWARD_PRE: 'BACKWARD_PRE',
  BACKWARD_POST: 'BACKWARD_POST',
} as const);

export type BackwardPrefetch = (typeof BackwardPrefetch)[keyof typeof BackwardPrefetch];

const RENAMED = 'PyTorch calls it ShardingStrategy';

/** A document's misspelling of ShardingStrategy; every name in it throws CONFIG. */
export const ShardStrategy = strictNames('ShardStrategy', {}, {
  FULL_SHARD: `${RENAMED}: ShardingStrategy.FULL_SHARD`,
  SHARD_GRAD_OP: `${RENAMED}: ShardingStrategy.SHARD_GRAD_OP`,
  NO_SHARD: `${RENAMED}: ShardingStrategy.NO_SHARD`,
  HYBRID_SHARD: `${RENAMED}: ShardingStrategy.HYBRID_SHARD`,
} as const);
