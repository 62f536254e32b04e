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
 * What the allocator reserves over what is allocated, of tensors that come and go; what lives from the first step on lies packed.
 * Holes that no tensor of the moment fits: with expandable segments only between tensors of one stream.
 */
export const RESERVED_OVER_ALLOCATED = 1.03;

/** The same where holes are worst: segments of fixed sizes. */
export const WORST_RESERVED_OVER_ALLOCATED = 1.12;

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
