import type { Seconds } from '../../core/units';
import type { Calibration } from '../calibration';
import { trafficSeconds } from '../cost/gemm';
import type { Layout } from '../layout';
import { optimizerBytesOf } from '../optimizer-bytes';
import { shardedStates } from '../sharded-states';

/**
 * Bytes per parameter that one step reads and writes, except the optimizer's own states: Adam reads gradient, parameter and two states and writes three (28). fully_shard's norm reads
 * and scales float32 gradients besides (12). Mixed precision in Megatron-LM and DeepSpeed reads 16-bit gradients and writes
 * float32 ones and 16-bit parameters (8): 36, which is also what vTrain's rows take (20 to 25 ms for 1e9 parameters).
 */
const UPDATE_BYTES: Record<Layout['stack'], number> = { megatron: 20, fsdp2: 24, deepspeed: 20 };

/** Time of the optimizer's step on a rank that holds `params` of the model. */
export function optimizerSeconds(layout: Layout, params: number, cal: Calibration): Seconds {
  const own = shardedStates(layout).includes('optimizer') ? params / layout.shards : params;
  const states = 2 * optimizerBytesOf(layout.optimizer)(own);
  return trafficSeconds(own * UPDATE_BYTES[layout.stack] + states, layout.hardware, cal);
}
