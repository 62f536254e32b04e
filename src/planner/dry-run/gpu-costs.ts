import { kernelOf } from '../../config';
import type { Seconds } from '../../core';
import type { KernelCall } from '../../engine';
import { type CollectiveCall, LINKS } from '../../wire';
import { CALIBRATION, type Calibration } from '../calibration';
import { attentionSeconds } from '../cost/attention';
import { collectiveSeconds, type GroupOperation, type GroupPlace } from '../cost/collective';
import { productSeconds, trafficSeconds } from '../cost/gemm';
import type { Hardware } from '../hardware';
import type { Precision } from '../layout';
import { type KernelWork, workOf } from './kernel-work';
import type { DryRunCosts } from './rank-run';

/**
 * Returns the times of this library's kernels and collectives on GPUs of this kind.
 *
 * [Note: this library's schedule on a GPU] Kernels, their shapes and their schedule (with overlap) are those of a step of this
 * library. Their times come from the planner's formulas for matmuls, attention, memory traffic in the declared types, and
 * collectives (which depend on the ranks' nodes). So a dry run predicts the time of *this* training on GPUs: less is fused
 * than in a compiled program, and no interpreter makes pauses. `predict` predicts the time of PyTorch or Megatron-LM. The times
 * leave out the rest of an iteration (data, counters), multiprocessors that a collective takes from a matmul, and slow nodes.
 *
 * The CPU launches one kernel after another and runs ahead of the GPU, which waits for a launch only if the GPU has caught up.
 * The costs remember how far ahead the CPU is, so each rank of a dry run needs its own costs.
 */
export function gpuCosts(
  hardware: Hardware,
  calibration: Calibration = CALIBRATION,
  note?: (kernel: TimedKernel) => void,
): DryRunCosts {
  let ahead: Seconds = 0;
  return {
    kernel(call) {
      const work = workOf(call);
      const seconds = kernelSeconds(call, work, hardware, calibration);
      // Kernels on the host launch nothing.
      const isLaunched = call.place === 'device' && seconds > 0;
      const waited = isLaunched ? Math.max(0, calibration.launchSeconds - ahead) : 0;
      if (isLaunched) ahead = Math.max(0, ahead - calibration.launchSeconds) + seconds;
      note?.({ call, work, seconds, waited });
      return waited + seconds;
    },
    collective: ({ op, bytes, ranks }) => {
      const place = placeOfRanks(ranks, hardware.gpusPerNode);
      return collectiveSeconds(operationOf(op), bytes, place, hardware, calibration);
    },
  };
}

/** A kernel with its time. */
export interface TimedKernel {
  readonly call: KernelCall;
  readonly work: KernelWork;
  readonly seconds: Seconds;
  /** How long the GPU waited for the kernel's launch. */
  readonly waited: Seconds;
}

/** This kernel takes no time on a GPU, because GPU kernels write values in the unit's type; only float32 engines round values. */
const FREE_ON_DEVICE = 'round';

function kernelSeconds(
  call: KernelCall,
  work: KernelWork,
  hardware: Hardware,
  calibration: Calibration,
): Seconds {
  if (call.name === FREE_ON_DEVICE) return 0;
  if (call.place === 'host') return hostSeconds(call.name, work.bytes);
  const precision = precisionOf(call);
  switch (work.kind) {
    case 'product':
      return productSeconds(work.product, hardware, precision, calibration);
    case 'attention': {
      const kernel = kernelOf(work.isFlash ? 'flash' : 'eager');
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

/** Returns the type that the kernel's unit declares; float32 if it declares none. */
function precisionOf({ declared }: KernelCall): Precision {
  if (declared === undefined) return 'fp32';
  return declared === 'bfloat16' ? 'bf16' : 'fp16';
}

/**
 * Bandwidth of CPU memory per GPU, bytes per second. Source: DGX A100: two sockets of 8 channels DDR4-3200 for 8
 * GPUs.
 */
const HOST_MEMORY = (2 * 8 * 25.6e9) / 8;
/** Bandwidth between CPU and GPU, bytes per second. Source: PCIe 4 with 16 lanes in `LINKS`. */
const HOST_LINK = (LINKS.PCIe4.gbit * 1e9) / 8;
const COPIES: ReadonlySet<string> = new Set(['fromDevice', 'toDevice']);

function hostSeconds(name: string, bytes: number): Seconds {
  // A copy's `bytes` count every byte twice: read and written.
  return COPIES.has(name) ? bytes / 2 / HOST_LINK : bytes / HOST_MEMORY;
}

function operationOf(op: CollectiveCall['op']): GroupOperation {
  switch (op) {
    case 'recv':
      return 'send';
    // A barrier is an all-reduce of 0 bytes.
    case 'barrier':
      return 'allReduce';
    default:
      return op;
  }
}

/** Returns the place of a group. Ranks fill one node after another; the node with the fewest members has the least bandwidth. */
export function placeOfRanks(ranks: readonly number[], gpusPerNode: number): GroupPlace {
  const members = new Map<number, number>();
  for (const rank of ranks) {
    const node = Math.floor(rank / gpusPerNode);
    members.set(node, (members.get(node) ?? 0) + 1);
  }
  return { size: ranks.length, perNode: Math.min(...members.values()) };
}
