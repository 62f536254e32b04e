import * as tf from '../core/tf';
import type { ProcessGroup } from './types';

const WORLD = Symbol('the group of all ranks');

interface Marked {
  [WORLD]?: ProcessGroup;
}

/** Notes the group of all ranks on tfjs's current backend, as torch.distributed's default group. */
export function markWorld(group: ProcessGroup): void {
  (tf.backend() as Marked)[WORLD] = group;
}

/** Returns the group of all ranks; null outside of a rank. */
export function currentWorld(): ProcessGroup | null {
  return (tf.backend() as Marked)[WORLD] ?? null;
}
