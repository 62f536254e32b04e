import { ShardlabError } from '../../core';
import { currentEngine, type Engine } from '../../engine';

/** Returns this rank's engine. Throws: ENGINE outside of a rank. */
export function requireEngine(): Engine {
  const engine = currentEngine();
  if (engine !== null) return engine;
  throw new ShardlabError('ENGINE', 'expert parallelism runs in a rank; launch a job and use a %%ranks cell');
}
