import type { Seconds } from '../../core/units';
import type { Calibration } from '../calibration';
import type { Gpu } from '../hardware';
import type { AttentionKernel, Precision } from '../layout';
import { productSeconds, rateOf, trafficSeconds } from './gemm';

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
 * Share of the GPU's GEMM roof that each kernel reaches at long sequences, forward and backward; a board with less power has
 * less of both. Source: the kernels' papers over the roofs of hardware.ts: FlashAttention-2 (Dao 2023: up to 73% forward and
 * 63% backward of A100's 312, of which long causal runs reach 0.93; on H100, for which it was not written, 35% to 37% of 989),
 * FlashAttention-3 (Shah et al. 2024: up to 75% of H100 forward; backward 1.5 to 1.75 times version 2's).
 */
const REACH: Record<
  Exclude<AttentionKernel, 'unfused'>,
  Record<Gpu['generation'], readonly [forward: number, backward: number]>
> = {
  flash: { volta: [0.45, 0.38], ampere: [0.78, 0.67], hopper: [0.46, 0.41], blackwell: [0.25, 0.21] },
  flash3: { volta: [0.45, 0.38], ampere: [0.78, 0.67], hopper: [0.81, 0.65], blackwell: [0.44, 0.38] },
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
    : fusedSeconds(core, core.kernel, gpu, precision);
}

/**
 * Two matmuls forward and four backward, and the score matrix in memory: written by the matmul, read and written by the
 * fused scale-mask-softmax, by dropout with its mask, and read by the second matmul. Source: Megatron-LM's CoreAttention.
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

/** Bytes per score: read, written, and a byte of mask. */
const DROPOUT_BYTES = 5;

/** Backward computes the scores anew: five matmuls to forward's two. Source: Dao 2023, section 3.2. */
function fusedSeconds(
  { batch, queries, keys, headDim, causal }: AttentionCore,
  kernel: 'flash' | 'flash3',
  gpu: Gpu,
  precision: Precision,
): ForwardBackward {
  const flops = 4 * batch * queries * keys * headDim * (causal && queries === keys ? 0.5 : 1);
  const [forward, backward] = REACH[kernel][gpu.generation];
  // Attention stays in 16 bits where matmuls are fp8; float32 takes a kernel at the rate of TF32.
  // Heads of 64 fill the tensor cores' tiles by half as well. Source: the same papers' curves by head size.
  const roof = gpu.gemmTflops * 1e12 * (precision === 'fp32' ? rateOf(precision, gpu.generation) : 1);
  const reached = roof * (keys / (keys + RAMP_KEYS)) * (headDim >= 128 ? 1 : 0.85);
  return { forward: flops / (reached * forward), backward: (2.5 * flops) / (reached * backward) };
}
