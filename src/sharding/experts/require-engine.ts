import { currentEngine } from '../../engine/backend/current-engine';
import type { Engine } from '../../engine/backend/engine';
import { ShardlabError } from '../../core/errors';

/** Returns this rank's engine. Throws: ENGINE outside of a rank. */
export function requireEngine(): Engine {
  const engine = currentEngine();
  if (engine !== null) return engine;
  throw new ShardlabError('ENGINE', 'expert parallelism runs in a rank; launch a job and use a %%ranks cell');
}
