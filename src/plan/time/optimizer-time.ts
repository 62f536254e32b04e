import type { Seconds } from '../../core/units';
import type { Calibration } from '../calibration';
import { trafficSeconds } from '../cost/gemm';
import type { Hardware } from '../hardware';
import type { Layout } from '../layout';
import { optimizerBytesOf } from '../memory/state-bytes';
import { shardedStates } from '../stack-rules';
import { commPerMicroBatch, numRegathers } from './data-parallel';

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

/** Payload of a packet of 256 bytes over what is sent. Source: PCI Express's transaction layer: 24 to 28 bytes of headers and framing. */
const PAYLOAD = 256 / (256 + 26);

/**
 * PCIe 3, 4 and 5 with 16 lanes; memory channels of both sockets over 8 GPUs. Source: data sheets of DGX-1 (8 channels of
 * DDR4-2133), DGX A100 (16 of DDR4-3200), DGX H100 (16 of DDR5-4800) and DGX B200 (16 of DDR5-5600), 8 bytes per transfer.
 */
const HOSTS: Readonly<Record<Hardware['generation'], ReturnType<typeof host>>> = {
  volta: host(15.75, 8 * 2.133),
  ampere: host(31.5, 16 * 3.2),
  hopper: host(63, 16 * 4.8),
  blackwell: host(63, 16 * 5.6),
};

/** The step reads gradient and parameter and writes the parameter, 4 bytes each; its states besides. Source: DeepSpeed's cpu_adam; torch's AdamW. */
const HOST_UPDATE_BYTES = 12;

/** Bytes per parameter in each direction: DeepSpeed moves 16-bit gradients and parameters, fully_shard its float32 shards. */
const MOVED: Readonly<Record<Layout['stack'], number>> = { deepspeed: 2, fsdp2: 4, megatron: 4 };

/**
 * Time of what `layout.offload` puts on the host, on a rank that holds `params` of the model. `step`: the step on the host, with
 * gradients going there and parameters coming back; nothing runs beside it. `copies`: shards that come from the host for each
 * gather, which compute may hide.
 */
export function offloadTime(layout: Layout, params: number) {
  const { offload, hardware, stack, shards, numMicroBatches, optimizer } = layout;
  const { link, memory } = HOSTS[hardware.generation];
  const states = shardedStates(layout);
  const own = states.includes('optimizer') ? params / shards : params;
  const step = offload.optimizer
    ? (own * HOST_UPDATE_BYTES + 2 * optimizerBytesOf(optimizer)(own)) / memory +
      (2 * own * MOVED[stack]) / link
    : 0;
  const each = commPerMicroBatch(layout).gather ? numMicroBatches : 1;
  const gathers = states.includes('parameter') ? each * (1 + numRegathers(layout)) : 1;
  const copies = offload.parameters ? (gathers * own * MOVED[stack]) / link : 0;
  return { step, copies };
}

/** Bandwidth in one direction to a GPU, and a GPU's share of the host's memory bandwidth; bytes per second. */
function host(linkGBps: number, gigaTransfers: number) {
  return { link: linkGBps * 1e9 * PAYLOAD, memory: (gigaTransfers * 8 * 1e9) / 8 };
}
