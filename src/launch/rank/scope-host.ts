import { ConfigError, globalSlot } from '../../core';
import type { RankScope } from './scope';

/** The scope of this process, if it is a rank. */
export const RANK_SCOPE = globalSlot<RankScope>('shardlab.rank');

/** Returns the scope of this process. Throws: CONFIG if this process is not a rank. */
export function currentRankScope(): RankScope {
  if (RANK_SCOPE.value !== undefined) return RANK_SCOPE.value;
  throw new ConfigError(
    "'shardlab/rank' can be imported only by code that runs in a rank: a %%ranks cell, or a function given to job.on().run",
  );
}
