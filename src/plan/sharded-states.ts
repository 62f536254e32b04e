import { type ModelState, STRATEGIES } from '../config/strategies';
import type { Layout } from './layout';

const ALL_BUT_PARAMETERS: readonly ModelState[] = ['gradient', 'optimizer'];

/**
 * What ranks hold 1/N of between steps. By the strategy; but what PyTorch calls SHARD_GRAD_OP and keeps sharded between
 * steps is stage 2 to DeepSpeed, which keeps parameters whole and gathers them once after the step.
 */
export function shardedStates({
  strategy,
  stack,
}: Pick<Layout, 'strategy' | 'stack'>): readonly ModelState[] {
  const { shardedAtRest, reshardAfterForward } = STRATEGIES[strategy];
  const isStageTwo = stack !== 'fsdp2' && shardedAtRest.includes('parameter') && !reshardAfterForward;
  return isStageTwo ? ALL_BUT_PARAMETERS : shardedAtRest;
}
