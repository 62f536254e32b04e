import type { Layout } from '../layout';

type Direction = 'forward' | 'backward';

/** Kernels of the router: scores, choice, balance. Source: Megatron-LM's moe/router.py. */
const ROUTER_KERNELS = 15;

/** Kernels of dispatch and combination: counts, sorts, copies, two exchanges. Source: Megatron-LM's moe/token_dispatcher.py. */
const DISPATCH_KERNELS = 15;

/**
 * Calls for one expert. Forward casts both inputs to fp8, and backward casts the gradients of both outputs; each cast makes new
 * tensors. Backward also runs a hook of data parallelism for each of the two weights. Source: Transformer Engine's
 * grouped_linear.py, which quantizes each expert's rows separately, and whose grouped matmul is a loop of cuBLAS matmuls in C++;
 * Megatron-LM's DDP.
 */
const EACH_EXPERT: Readonly<
  Record<Direction, { readonly casts: number; readonly matmuls: number; readonly hooks: number }>
> = {
  forward: { casts: 2, matmuls: 2, hooks: 0 },
  backward: { casts: 2, matmuls: 4, hooks: 2 },
};

/**
 * The CPU's time for a matmul in the loop of matmuls, or for a hook, divided by its time for an operator with PyTorch's dispatch
 * and autograd. The value is assumed; the trainings of measured/whole-trainings.json were known when it was chosen.
 */
const BARE_CALL = 0.5;

/**
 * Kernels of a cast to fp8. Blackwell's MXFP8 has one scale per block, and one kernel casts. On older GPUs a tensor has one
 * scale, and two more kernels compute the scale from the tensor's largest value. Source: Transformer Engine's MXFP8Quantizer and
 * Float8CurrentScalingQuantizer.
 */
const CAST_KERNELS = { blocks: 1, tensor: 3 } as const;

/** Returns the CPU's work for a layer's experts, as a number of launches. Work that a CUDA graph replays is left out. */
export function expertKernels(layout: Layout, direction: Direction): number {
  const { model, stack, ep, precision, cudaGraph, hardware } = layout;
  if (model.moe === null || cudaGraph === 'iteration') return 0;
  const router = cudaGraph === 'none' ? ROUTER_KERNELS : 0;
  if (stack !== 'megatron') return router + DISPATCH_KERNELS;
  const { casts, matmuls, hooks } = EACH_EXPERT[direction];
  const cast = hardware.generation === 'blackwell' ? CAST_KERNELS.blocks : CAST_KERNELS.tensor;
  const each = BARE_CALL * (matmuls + hooks) + (precision === 'fp8' ? casts * cast : 0);
  return router + DISPATCH_KERNELS + (model.moe.experts / ep) * each;
}

/** Kernels before the exchange that sends tokens to experts: half of the kernels of dispatch and combination. */
export const KERNELS_BEFORE_EXCHANGE = DISPATCH_KERNELS / 2;
