/*
 * The names of torch.distributed.fsdp that do not depend on the rank. They need a separate module, because src/rank.ts
 * exports the same names.
 */

import { strictNames } from '../../config/strict-names';
import { CheckpointImpl as Implementations } from '../../parallel/recompute/checkpointed';

export { allreduceHook, bf16CompressHook, fp16CompressHook } from '../../parallel/ddp/comm-hooks';
export { PowerSGDState, powerSGDHook } from '../../parallel/ddp/power-sgd';
export { TopKState, topKHook } from '../../parallel/ddp/top-k';
export {
  setModulesToBackwardPrefetch,
  setModulesToForwardPrefetch,
} from '../../parallel/fsdp/units-of';
export {
  BackwardPrefetch,
  CPUOffload,
  MixedPrecision,
  MixedPrecisionPolicy,
  OffloadPolicy,
  ShardingStrategy,
  ShardStrategy,
} from '../../parallel/fsdp1/arguments';
export {
  alwaysWrapPolicy,
  lambdaAutoWrapPolicy,
  ModuleWrapPolicy,
  moeAutoWrapPolicy,
  neverWrapPolicy,
  sizeBasedAutoWrapPolicy,
  transformerAutoWrapPolicy,
} from '../../parallel/wrap-policy';

/** PyTorch's two implementations of activation checkpointing; here, both names give the same implementation. */
export const CheckpointImpl = strictNames('CheckpointImpl', Implementations, {
  NO_CHECKPOINT:
    'it has NO_REENTRANT and REENTRANT; for no checkpointing omit checkpointWrapper, or give activationCheckpointing: null',
} as const);
