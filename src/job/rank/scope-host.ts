import { ConfigError } from '../../core/errors';
import type { RankScope } from './scope';

const SCOPE: unique symbol = Symbol.for('shardlab.rank');

interface ScopeHost {
  [SCOPE]?: RankScope | undefined;
}

/** Makes the scope that of this process. */
export function setRankScope(scope: RankScope): void {
  host()[SCOPE] = scope;
}

/** The scope of this process. Throws: CONFIG where it is no rank. */
export function currentRankScope(): RankScope {
  const scope = host()[SCOPE];
  if (scope !== undefined) return scope;
  throw new ConfigError(
    "'shardlab/rank' can be imported only by code that runs in a rank: a %%ranks cell, or a function given to job.on().run",
  );
}

function host(): ScopeHost {
  // globalThis has no index type for symbols; the key is ours alone.
  return globalThis as ScopeHost;
}
