import type { KernelCall, KernelCosts } from '../../backend/kernel-costs';
import type { Seconds } from '../../core/units';
import { LINKS } from '../../transport/link';
import type { CollectiveCall } from '../../transport/meta-plane';
import { CALIBRATION, type Calibration } from '../calibration';
import { attentionSeconds } from '../cost/attention';
import { collectiveSeconds, type GroupOperation, type GroupPlace } from '../cost/collective';
import { productSeconds, trafficSeconds } from '../cost/gemm';
import type { Hardware } from '../hardware';
import type { Precision } from '../layout';
import { workOf } from './kernel-work';
import type { DryRunCosts } from './rank-run';

/**
 * What kernels and collectives of this library would take on such GPUs.
 *
 * [Note: this library's schedule on a GPU] The kernels are those that a step here really calls, with their shapes, and the
 * schedule is this library's, overlap included; the times are the planner's: matmuls, cores of attention, traffic at the
 * declared types, collectives by where the group's ranks are. So a dry run says what *this* training would take on them,
 * which fuses less than a compiled program and has no interpreter's pauses; `predict` says what PyTorch's or Megatron-LM's
 * would. Left out: what an iteration takes besides (data, counters), multiprocessors that a collective takes from a matmul
 * beside it, and slow nodes.
 *
 * The host launches one kernel after another and runs ahead of the device: the device waits only where it has caught up.
 * That makes the costs remember how far ahead the host is, so each rank of a dry run needs its own.
 */
export function gpuCosts(hardware: Hardware, calibration: Calibration = CALIBRATION): DryRunCosts {
  return {
    kernel: launched(calibration.launchSeconds, (call) => kernelSeconds(call, hardware, calibration)),
    collective: ({ op, bytes, ranks }) => {
      const place = placeOfRanks(ranks, hardware.gpusPerNode);
      return collectiveSeconds(operationOf(op), bytes, place, hardware, calibration);
    },
  };
}

/** Lets the device wait for launches where the host is not ahead of it. What runs on the host launches nothing. */
function launched(launchSeconds: Seconds, device: KernelCosts): KernelCosts {
  let ahead: Seconds = 0;
  return (call) => {
    const seconds = device(call);
    if (call.place === 'host' || seconds === 0) return seconds;
    const waits = Math.max(0, launchSeconds - ahead);
    ahead = Math.max(0, ahead - launchSeconds) + seconds;
    return waits + seconds;
  };
}

/** Values are of the unit's type already when a kernel has written them; engines of float32 round them instead. */
const FREE_ON_DEVICE = 'round';

function kernelSeconds(call: KernelCall, hardware: Hardware, calibration: Calibration): Seconds {
  if (call.name === FREE_ON_DEVICE) return 0;
  const work = workOf(call);
  if (call.place === 'host') return hostSeconds(call.name, work.bytes);
  const precision = precisionOf(call);
  switch (work.kind) {
    case 'product':
      return productSeconds(work.product, hardware, precision, calibration);
    case 'attention': {
      const kernel = work.isFlash ? 'flash' : 'unfused';
      const core = { ...work, kernel, dropout: false } as const;
      const { forward, backward } = attentionSeconds(core, hardware, precision, calibration);
      return work.isBackward ? backward : forward;
    }
    case 'traffic':
      return trafficSeconds(work.bytes, hardware, calibration);
    default:
      return work satisfies never;
  }
}

/** The type that the kernel's unit declares; float32 if it declares none. */
function precisionOf({ declared }: KernelCall): Precision {
  if (declared === undefined) return 'fp32';
  return declared === 'bfloat16' ? 'bf16' : 'fp16';
}

/**
 * A host's memory bandwidth for one GPU, bytes per second. Source: DGX A100: two sockets of 8 channels DDR4-3200 for 8
 * GPUs.
 */
const HOST_MEMORY = (2 * 8 * 25.6e9) / 8;
/** Bandwidth between a host and its GPU, bytes per second. Source: as for LINKS: PCIe 4, 16 lanes. */
const HOST_LINK = (LINKS.PCIe4.gbit * 1e9) / 8;
const COPIES: ReadonlySet<string> = new Set(['fromDevice', 'toDevice']);

function hostSeconds(name: string, bytes: number): Seconds {
  // A copy reports its bytes as read and written.
  return COPIES.has(name) ? bytes / 2 / HOST_LINK : bytes / HOST_MEMORY;
}

function operationOf(op: CollectiveCall['op']): GroupOperation {
  switch (op) {
    case 'recv':
      return 'send';
    // A sum of nothing.
    case 'barrier':
      return 'allReduce';
    default:
      return op;
  }
}

/** Nodes are filled one after another; where they share a group unevenly, the one with the fewest has the least bandwidth. */
export function placeOfRanks(ranks: readonly number[], gpusPerNode: number): GroupPlace {
  const members = new Map<number, number>();
  for (const rank of ranks) {
    const node = Math.floor(rank / gpusPerNode);
    members.set(node, (members.get(node) ?? 0) + 1);
  }
  return { size: ranks.length, perNode: Math.min(...members.values()) };
}
