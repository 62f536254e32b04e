import type { Seconds } from '../../core/units';
import type { Hardware } from '../hardware';
import type { Layout } from '../layout';
import { optimizerBytesOf } from '../optimizer-bytes';
import { shardedStates } from '../sharded-states';
import { commPerMicroBatch, numRegathers } from './data-parallel';

/** What states on the host cost an iteration. */
export interface OffloadTime {
  /** The step on the host, with gradients going there and parameters coming back; nothing runs beside it. */
  readonly step: Seconds;
  /** Shards that come from the host for each gather, which compute may hide. */
  readonly copies: Seconds;
}

interface Host {
  /** Bandwidth in one direction to a GPU, bytes per second. */
  readonly link: number;
  /** A GPU's share of the host's memory bandwidth, bytes per second. */
  readonly memory: number;
}

/** Payload of a packet of 256 bytes over what is sent. Source: PCI Express's transaction layer: 24 to 28 bytes of headers and framing. */
const PAYLOAD = 256 / (256 + 26);

/**
 * PCIe 3, 4 and 5 with 16 lanes; memory channels of both sockets over 8 GPUs. Source: data sheets of DGX-1 (8 channels of
 * DDR4-2133), DGX A100 (16 of DDR4-3200), DGX H100 (16 of DDR5-4800) and DGX B200 (16 of DDR5-5600), 8 bytes a transfer.
 */
const HOSTS: Readonly<Record<Hardware['generation'], Host>> = {
  volta: host(15.75, 8 * 2.133),
  ampere: host(31.5, 16 * 3.2),
  hopper: host(63, 16 * 4.8),
  blackwell: host(63, 16 * 5.6),
};

/** The step reads gradient and parameter and writes the parameter, 4 bytes each; its states besides. Source: DeepSpeed's cpu_adam; torch's AdamW. */
const UPDATE_BYTES = 12;

/** Bytes per parameter in each direction: DeepSpeed moves 16-bit gradients and parameters, fully_shard its float32 shards. */
const MOVED: Readonly<Record<Layout['stack'], number>> = { deepspeed: 2, fsdp2: 4, megatron: 4 };

/** Time of what `layout.offload` puts on the host, on a rank that holds `params` of the model. */
export function offloadTime(layout: Layout, params: number): OffloadTime {
  const { offload, hardware, stack, shards, numMicroBatches, optimizer } = layout;
  const { link, memory } = HOSTS[hardware.generation];
  const states = shardedStates(layout);
  const own = states.includes('optimizer') ? params / shards : params;
  const step = offload.optimizer
    ? (own * UPDATE_BYTES + 2 * optimizerBytesOf(optimizer)(own)) / memory + (2 * own * MOVED[stack]) / link
    : 0;
  const each = commPerMicroBatch(layout).gather ? numMicroBatches : 1;
  const gathers = states.includes('parameter') ? each * (1 + numRegathers(layout)) : 1;
  const copies = offload.parameters ? (gathers * own * MOVED[stack]) / link : 0;
  return { step, copies };
}

function host(linkGBps: number, gigaTransfers: number): Host {
  return { link: linkGBps * 1e9 * PAYLOAD, memory: (gigaTransfers * 8 * 1e9) / 8 };
}
