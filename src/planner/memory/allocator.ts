import type { Bytes } from '../../core';
import { GENERATIONS } from '../generations';
import type { AnyLayout, Layout } from '../layout';

const MIB = 1024 ** 2;

/**
 * Returns the bytes of cuBLAS's workspaces in the caching allocator: one for the forward thread, one for autograd's thread.
 * Source: ATen/cuda/CublasHandlePool.cpp, parseChosenWorkspaceSize: 4096 KiB x 8 on Hopper, 2 x 4096 KiB + 8 x 16 KiB before
 * Hopper.
 */
export function workspaceBytes({ hardware }: Layout): Bytes {
  return 2 * (GENERATIONS[hardware.generation].hasWideWorkspace ? 32 * MIB : 8.125 * MIB);
}

/**
 * [Note: holes] A hole is a free piece of reserved memory that is smaller than any tensor that is still to be allocated. `HOLES`
 * has the bytes of all holes at the peak, divided by the bytes of a layer's activations. Holes arise because logits do not fit
 * into the pieces that a layer's forward has freed, and because stored tensors are between freed tensors.
 * Source: a step's allocations, replayed by CUDACachingAllocator's rules with expandable segments (set by TorchTitan's
 * run_train.sh): test/support/caching-allocator.ts and its test, for seven shapes of Llama. A compiler leaves fewer holes,
 * because it reuses its buffers.
 * Megatron-LM's tensors have the same few sizes in every microbatch, so they fit into the pieces of the previous microbatch.
 * If the loss runs op by op after compiled blocks, its float32 tensors do not fit where the logits were.
 */
export const HOLES = {
  eager: { none: 1, selective: 1.8, full: 1.7 },
  compiled: { none: 0.6, selective: 0.6, full: 0.6 },
  eagerLoss: { none: 1.8, selective: 1.9, full: 1.7 },
  megatron: { none: 0.5, selective: 0.5, full: 0.5 },
} as const;

/** The most bytes of holes per logit under full recompute without a compiler, if logits need less memory than a layer. */
const HOLES_PER_LOGIT = 3.7;

/**
 * The most bytes of holes if segments have fixed sizes (the allocator's default), divided by the bytes of a layer's activations.
 */
export const MOST_HOLES = 3;

/**
 * Returns the usual and the largest bytes of holes. `wholeLayer` is the size of a layer's activations. `copies` is the size of
 * two copies: one joins the parts of a gathered sequence, the other copy cuts a sequence before it is scattered. Asynchronous
 * tensor parallelism makes no such copies, and leaves no holes of their size. Source:
 * torch/_inductor/fx_passes/micro_pipeline_tp.py, which replaces all-gather, split and cat by fused_all_gather_matmul; its
 * buffers are in symmetric memory outside the allocator.
 */
export function holesOf(
  { stack, compile, compileLoss, recompute, asyncTensorParallel }: Layout,
  {
    wholeLayer,
    copies,
    logits,
    isLoss,
  }: { wholeLayer: Bytes; copies: Bytes; logits: number; isLoss: boolean },
): { usual: Bytes; most: Bytes } {
  const most = MOST_HOLES * wholeLayer;
  if (stack === 'megatron') return { usual: HOLES.megatron[recompute] * wholeLayer, most };
  if (!compile) {
    const usual = HOLES.eager[recompute] * wholeLayer;
    const isCut = recompute === 'full' && logits > 0;
    return { usual: isCut ? Math.min(usual, HOLES_PER_LOGIT * logits) : usual, most };
  }
  if (compileLoss || !isLoss) return { usual: HOLES.compiled[recompute] * wholeLayer, most };
  const usual = HOLES.eagerLoss[recompute] * wholeLayer;
  return { usual: asyncTensorParallel ? Math.max(0, usual - copies) : usual, most };
}

/** Share of the GiB in a GPU's name that CUDA offers: 39.4 of 40, 79.2 of 80. Source: cudaDeviceProp.totalGlobalMem. */
export const OFFERED = 0.985;

/**
 * Returns the most bytes that the allocator can reserve; 0 if CUDA's context alone fills the GPU. If a request does not fit, the allocator frees its unused blocks and
 * tries again.
 * Source: CUDACachingAllocator.cpp: malloc calls release_available_cached_blocks and release_cached_blocks before it fails.
 */
export function reservableBytes(layout: AnyLayout): Bytes {
  return Math.max(0, OFFERED * layout.hardware.memoryGB * 1024 * MIB - bytesOutsideAllocator(layout));
}

/**
 * Whether this peak can be reserved. 1 byte more is allowed for rounding, because peaks near capacity are cut to the capacity.
 */
export function fitsOnGpu(layout: AnyLayout, peakBytes: Bytes): boolean {
  return peakBytes <= reservableBytes(layout) + 1;
}

/**
 * Returns the bytes that nvidia-smi counts in addition to PyTorch's counters: CUDA's context with its kernels, and the channels
 * of each NCCL communicator.
 */
export function bytesOutsideAllocator(layout: AnyLayout): Bytes {
  return CONTEXT + numCommunicators(layout) * COMMUNICATOR;
}

/** CUDA context and loaded kernels on A100 and H100, roughly. */
const CONTEXT = 512 * MIB;

/**
 * NCCL_BUFFSIZE's default of 4 MiB, to send and to receive, on 16 channels. Source: NCCL's documentation of environment
 * variables.
 */
const COMMUNICATOR = 2 * 4 * MIB * 16;

/** Returns the number of communicators: one of the world, and one for each axis with more than one rank. */
function numCommunicators({ dp, tp, pp, cp, ep, gpus }: AnyLayout): number {
  return [gpus, dp, tp, pp, cp, ep].filter((ranks) => ranks > 1).length;
}
