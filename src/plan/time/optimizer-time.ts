import type { Seconds } from '../../core/units';

import type { Calibration } from '../calibration';
import { trafficSeconds } from '../cost/gemm';
import type { Layout } from '../layout';
import { shardedStates } from '../sharded-states';

/**
 * Bytes a parameter of one step: Adam reads gradient, parameter and two states and writes three (28); mixed precision
 * copies gradients to float32 and parameters back (12); the norm reads and scales gradients (12). Source: the optimizers' code.
 */
const UPDATE_BYTES: Record<Layout['stack'], number> = { megatron: 36, fsdp2: 40, deepspeed: 36 };

/** Time of the optimizer's step on a rank that holds `params` of the model. */
export function optimizerSeconds(layout: Layout, params: number, cal: Calibration): Seconds {
  const own = shardedStates(layout).includes('optimizer') ? params / layout.shards : params;
  return trafficSeconds(own * UPDATE_BYTES[layout.stack], layout.hardware, cal);
}
