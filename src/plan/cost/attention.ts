import type { Seconds } from '../../core/units';
import type { Calibration } from '../calibration';
import type { Gpu } from '../hardware';
import type { AttentionKernel, Precision } from '../layout';
import { productSeconds, trafficSeconds } from './gemm';

/** The core of attention between projections: scores, softmax, weighted sum. */
export interface AttentionCore {
  readonly kernel: AttentionKernel;
  /** Samples times heads of one rank. */
  readonly batch: number;
  /** Tokens that ask, and tokens that are read. */
  readonly queries: number;
  readonly keys: number;
  readonly headDim: number;
  readonly causal: boolean;
  readonly dropout: boolean;
}

export interface ForwardBackward {
  readonly forward: Seconds;
  readonly backward: Seconds;
}

/**
 * Share of the tensor cores' peak that each kernel reaches at long sequences, forward and backward. Source: the kernels'
 * papers: FlashAttention-2 (Dao 2023: up to 73% forward, 63% backward of A100; on H100, for which it was not written,
 * 35%), FlashAttention-3 (Shah et al. 2024: 75% of H100; backward 1.5–1.75 times version 2's).
 */
const REACH: Record<
  Exclude<AttentionKernel, 'unfused'>,
  Record<Gpu['generation'], readonly [number, number]>
> = {
  flash: { volta: [0.35, 0.3], ampere: [0.68, 0.58], hopper: [0.4, 0.34], blackwell: [0.2, 0.17] },
  flash3: { volta: [0.35, 0.3], ampere: [0.68, 0.58], hopper: [0.65, 0.52], blackwell: [0.35, 0.3] },
};

/** Keys below which a fused kernel does not reach its rate: half of it at this many. Source: the papers' curves by length. */
const RAMP_KEYS = 350;

/** Time of one layer's core on one rank. */
export function attentionSeconds(
  core: AttentionCore,
  gpu: Gpu,
  precision: Precision,
  cal: Calibration,
): ForwardBackward {
  return core.kernel === 'unfused'
    ? unfusedSeconds(core, gpu, precision, cal)
    : fusedSeconds(core, core.kernel, gpu);
}

/**
 * Two products forward and four backward, and the score matrix in memory: written by the product, read and written by the
 * fused scale-mask-softmax, by dropout with its mask, and read by the second product. Source: Megatron-LM's CoreAttention.
 */
function unfusedSeconds(
  core: AttentionCore,
  gpu: Gpu,
  precision: Precision,
  cal: Calibration,
): ForwardBackward {
  const { batch, queries, keys, headDim, dropout } = core;
  const scores = { m: queries, n: keys, k: headDim, batch };
  const sums = { m: queries, n: headDim, k: keys, batch };
  const one = productSeconds(scores, gpu, precision, cal);
  const other = productSeconds(sums, gpu, precision, cal);
  const size = batch * queries * keys;
  const forward = trafficSeconds(size * (cal.scoreBytes - (dropout ? 0 : DROPOUT_BYTES)), gpu, cal);
  const backward = (4 / 3) * forward;
  return { forward: one + other + forward, backward: 2 * (one + other) + backward };
}

/** Bytes a score: read, written, and a byte of mask. */
const DROPOUT_BYTES = 5;

/** Backward computes the scores anew: five products to forward's two. Source: Dao 2023, section 3.2. */
function fusedSeconds(
  { batch, queries, keys, headDim, causal }: AttentionCore,
  kernel: 'flash' | 'flash3',
  gpu: Gpu,
): ForwardBackward {
  const flops = 4 * batch * queries * keys * headDim * (causal && queries === keys ? 0.5 : 1);
  const [forward, backward] = REACH[kernel][gpu.generation];
  // Heads of 64 fill the tensor cores' tiles by half as well. Source: the same papers' curves by head size.
  const reached = gpu.tflops * 1e12 * (keys / (keys + RAMP_KEYS)) * (headDim >= 128 ? 1 : 0.85);
  return { forward: flops / (reached * forward), backward: (2.5 * flops) / (reached * backward) };
}
