/*
 * The names of torch.distributed.fsdp that do not depend on the rank. They need a separate module, because src/rank.ts
 * exports the same names.
 */

import { strictNames } from '../../config';
import { CheckpointImpl as Implementations } from '../recompute/checkpointed';

export { allreduceHook, bf16CompressHook, fp16CompressHook } from '../ddp/comm-hooks';
export { PowerSGDState, powerSGDHook } from '../ddp/power-sgd';
export { TopKState, topKHook } from '../ddp/top-k';
export {
  setModulesToBackwardPrefetch,
  setModulesToForwardPrefetch,
} from '../fsdp/units-of';
export {
  BackwardPrefetch,
  CPUOffload,
  MixedPrecision,
  MixedPrecisionPolicy,
  OffloadPolicy,
  ShardingStrategy,
  ShardStrategy,
} from '../fsdp1/arguments';
export {
  alwaysWrapPolicy,
  lambdaAutoWrapPolicy,
  ModuleWrapPolicy,
  moeAutoWrapPolicy,
  neverWrapPolicy,
  sizeBasedAutoWrapPolicy,
  transformerAutoWrapPolicy,
} from '../wrap-policy';

/** PyTorch's two implementations of activation checkpointing; here, both names give the same implementation. */
export const CheckpointImpl = strictNames('CheckpointImpl', Implementations, {
  NO_CHECKPOINT:
    'it has NO_REENTRANT and REENTRANT; for no checkpointing omit checkpointWrapper, or give activationCheckpointing: null',
} as const);
