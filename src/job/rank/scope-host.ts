import { ConfigError } from '../../core/errors';
import type { RankScope } from './scope';

const SCOPE: unique symbol = Symbol.for('shardlab.rank');

interface ScopeHost {
  [SCOPE]?: RankScope | undefined;
}

/** Sets the scope of this process. */
export function setRankScope(scope: RankScope): void {
  host()[SCOPE] = scope;
}

/** The scope of this process. Throws: CONFIG if this process is not a rank. */
export function currentRankScope(): RankScope {
  const scope = host()[SCOPE];
  if (scope !== undefined) return scope;
  throw new ConfigError(
    "'shardlab/rank' can be imported only by code that runs in a rank: a %%ranks cell, or a function given to job.on().run",
  );
}

function host(): ScopeHost {
  // globalThis has no index type for symbols; only we use this key.
  return globalThis as ScopeHost;
}
