import type { Bytes } from '../../core/units';
import type { Layout } from '../layout';

const MIB = 1024 ** 2;

/**
 * cuBLAS's workspaces, taken from the caching allocator: one for the thread of forward, one for autograd's.
 * Source: ATen/cuda/CublasHandlePool.cpp, parseChosenWorkspaceSize: 4096 KiB x 8 on Hopper, 2 x 4096 KiB + 8 x 16 KiB before.
 */
export function workspaceBytes({ hardware }: Layout): Bytes {
  const isWide = hardware.generation === 'hopper' || hardware.generation === 'blackwell';
  return 2 * (isWide ? 32 * MIB : 8.125 * MIB);
}

/**
 * [Note: holes] What the caching allocator has reserved at the peak and no tensor of the moment fits into, in layers' worth of
 * activations: logits are larger than what a layer's forward leaves free, and what is kept lies between what is not.
 * Source: a step's allocations replayed through CUDACachingAllocator's rules with expandable segments (TorchTitan's
 * run_train.sh sets them): test/support/caching-allocator.ts and its test, over seven shapes of Llama. A compiler reuses its buffers.
 * Megatron-LM's tensors have the same few sizes in every microbatch, and fit where the last ones were.
 */
export const HOLES = {
  eager: { none: 1, selective: 1.8, full: 1.7 },
  compiled: { none: 0.6, selective: 0.6, full: 0.5 },
  megatron: { none: 0.5, selective: 0.5, full: 0.5 },
} as const;

/** Layers' worth that holes take at most: segments of fixed sizes, as the allocator makes them by default. */
export const MOST_HOLES = 3;

/** Bytes of holes and the most of them, for a layer's whole activations. */
export function holesOf(
  { stack, compile, recompute }: Layout,
  wholeLayer: Bytes,
): { usual: Bytes; most: Bytes } {
  const row = stack === 'megatron' ? HOLES.megatron : compile ? HOLES.compiled : HOLES.eager;
  return { usual: row[recompute] * wholeLayer, most: MOST_HOLES * wholeLayer };
}

/** Of the memory in a GPU's name, in GiB a "GB", what CUDA offers: 39.4 of 40, 79.2 of 80. Source: cudaDeviceProp.totalGlobalMem. */
export const OFFERED = 0.985;

/**
 * What the allocator can reserve at most. Where a request does not fit, it gives back what it only keeps, and tries again.
 * Source: CUDACachingAllocator.cpp: malloc calls release_available_cached_blocks and release_cached_blocks before it fails.
 */
export function reservableBytes(layout: Layout): Bytes {
  return OFFERED * layout.hardware.memoryGB * 1024 * MIB - bytesOutsideAllocator(layout);
}

/** Whether so much can be reserved; to a byte, since a peak near capacity is what can be. */
export function fitsOnGpu(layout: Layout, peakBytes: Bytes): boolean {
  return peakBytes <= reservableBytes(layout) + 1;
}

/**
 * What tools that read the device (nvidia-smi) count besides and PyTorch's counters do not: CUDA's context with its kernels, and NCCL's
 * channels of each communicator.
 */
export function bytesOutsideAllocator(layout: Layout): Bytes {
  return CONTEXT + numCommunicators(layout) * COMMUNICATOR;
}

/** CUDA context and loaded kernels on A100 and H100, about; by arithmetic no better. */
const CONTEXT = 512 * MIB;

/** NCCL_BUFFSIZE's default of 4 MiB, sent and received, on 16 channels. Source: NCCL's documentation of environment variables. */
const COMMUNICATOR = 2 * 4 * MIB * 16;

/** The world's, and one an axis that is more than one rank long. */
function numCommunicators({ dp, tp, pp, cp, ep, gpus }: Layout): number {
  return [gpus, dp, tp, pp, cp, ep].filter((ranks) => ranks > 1).length;
}
