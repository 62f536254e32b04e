import * as tf from '../core/tf';
import type { ProcessGroup } from './types';

const WORLD = Symbol('the group of all ranks');

interface Marked {
  [WORLD]?: ProcessGroup | null;
}

/**
 * Notes the group of all ranks on tfjs's current backend, as torch.distributed's default group. Returns the group that was
 * noted before, because a trainer notes its own group while it works, and then the earlier group again.
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
