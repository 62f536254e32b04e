import type { Seconds } from '../../core';
import type { Calibration } from '../calibration';
import { trafficSeconds } from '../cost/gemm';
import { GENERATIONS, type Generation } from '../generations';
import type { Layout } from '../layout';
import { optimizerBytesOf } from '../memory/state-bytes';
import { shardedStates } from '../stack-rules';
import { commPerMicroBatch, numRegathers } from './data-parallel';

/**
 * Bytes per parameter that one step reads and writes, without the optimizer's states. Every step reads gradient and parameter
 * and writes the parameter (12); Adam also reads and writes two states (16). fully_shard's norm also reads and scales float32
 * gradients (12). Mixed precision in Megatron-LM and DeepSpeed also reads 16-bit gradients and writes float32 gradients and
 * 16-bit parameters (8). With Adam's states, that is 36 bytes, which agrees with vTrain's rows (20 to 25 ms for 1e9 parameters).
 */
const UPDATE_BYTES: Record<Layout['stack'], number> = { megatron: 20, fsdp2: 24, deepspeed: 20 };

/** Returns the time of the optimizer's step on a rank that has `params` parameters of the model. */
export function optimizerSeconds(layout: Layout, params: number, cal: Calibration): Seconds {
  const trained = params * layout.trainedShare;
  const own = shardedStates(layout).includes('optimizer') ? trained / layout.shards : trained;
  const states = 2 * optimizerBytesOf(layout.optimizer)(own);
  return trafficSeconds(own * UPDATE_BYTES[layout.stack] + states, layout.hardware, cal);
}

/** Share of the payload (256 bytes) in a packet: PCIe adds 24 to 28 bytes. Source: PCI Express's transaction layer. */
const PAYLOAD = 256 / (256 + 26);

/** Gradient and parameter are read, the parameter is written, 4 bytes each. Source: DeepSpeed's cpu_adam; torch's AdamW. */
const HOST_UPDATE_BYTES = 12;

/**
 * Parameters that one rank's share of the CPU's cores updates per second. Fitted on Llama-3.1-8B with DeepSpeed's cpu_adam on 8
 * H200, sequences of 8192 tokens (test/data/training-measured.json); the runs on B200 and with longer sequences were held out.
 */
const HOST_UPDATES = 0.52e9;

/** Bytes per parameter in each direction: DeepSpeed moves 16-bit gradients and parameters, fully_shard its float32 shards. */
const MOVED: Readonly<Record<Layout['stack'], number>> = { deepspeed: 2, fsdp2: 4, megatron: 4 };

/**
 * Returns the time of offload on a rank that has `params` parameters of the model. `step` is the time of the optimizer on the
 * CPU plus the transfer of gradients and parameters, without overlap. `copies` is the time of transfers of shards from the CPU
 * for each all-gather; compute may hide these transfers.
 */
export function offloadTime(layout: Layout, params: number) {
  const { offload, hardware, stack, shards, numMicroBatches, optimizer } = layout;
  const { link, memory } = hostOf(hardware.generation);
  const states = shardedStates(layout);
  const own = states.includes('optimizer') ? params / shards : params;
  const trained = own * layout.trainedShare;
  const moved = trained * HOST_UPDATE_BYTES + 2 * optimizerBytesOf(optimizer)(trained);
  const step = offload.optimizer
    ? Math.max(moved / memory, trained / HOST_UPDATES) + (2 * trained * MOVED[stack]) / link
    : 0;
  const each = commPerMicroBatch(layout).gather ? numMicroBatches : 1;
  const gathers = states.includes('parameter') ? each * (1 + numRegathers(layout)) : 1;
  const copies = offload.parameters ? (gathers * own * MOVED[stack]) / link : 0;
  return { step, copies };
}

/** Returns the bandwidth to a GPU in one direction, and a GPU's share of the CPU's memory bandwidth; bytes per second. */
function hostOf(generation: Generation) {
  const { linkGBps, gigaTransfers } = GENERATIONS[generation].host;
  return { link: linkGBps * 1e9 * PAYLOAD, memory: (gigaTransfers * 8 * 1e9) / 8 };
}
