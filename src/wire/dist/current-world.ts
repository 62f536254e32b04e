import * as tf from '../../core/tf';
import type { ProcessGroup } from './types';

const WORLD = Symbol('the group of all ranks');

interface Marked {
  [WORLD]?: ProcessGroup | null;
}

/**
 * Stores the group of all ranks on tfjs's current backend; torch.distributed calls this the default group. Returns the group
 * that was stored before, because a trainer stores its own group while it works and then restores the earlier group.
 */
export function markWorld(group: ProcessGroup | null): ProcessGroup | null {
  const before = currentWorld();
  (tf.backend() as Marked)[WORLD] = group;
  return before;
}

/** Returns the group of all ranks; null outside of a rank. */
export function currentWorld(): ProcessGroup | null {
  return (tf.backend() as Marked)[WORLD] ?? null;
}
