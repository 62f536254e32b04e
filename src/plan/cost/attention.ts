import type { Seconds } from '../../core/units';
import type { Calibration } from '../calibration';
import type { Gpu } from '../hardware';
import type { AttentionKernel, Precision } from '../layout';
import { productSeconds, rateOf, trafficSeconds } from './gemm';

/** The core of attention, between the projections: scores, softmax, weighted sum. */
export interface AttentionCore {
  readonly kernel: AttentionKernel;
  /** Samples times heads of one rank. */
  readonly batch: number;
  /** Number of query positions, and of key positions. */
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
 * Share of the GPU's matmul rate (gemmTflops) that each kernel reaches at long sequences, forward and backward. Source: rates
 * of the papers over those of hardware.ts: FlashAttention-2 (Dao 2023: up to 73% of A100's 312 TFLOP/s forward, 63% backward;
 * long causal runs reach 0.93 of that; on H100, for which it was not written, 35% to 37% of 989), FlashAttention-3 (Shah et al.
 * 2024: up to 75% of H100 forward; backward is 1.5 to 1.75 times as fast as version 2).
 */
const REACH: Record<
  Exclude<AttentionKernel, 'unfused'>,
  Record<Gpu['generation'], readonly [forward: number, backward: number]>
> = {
  flash: { volta: [0.45, 0.38], ampere: [0.78, 0.67], hopper: [0.46, 0.41], blackwell: [0.25, 0.21] },
  flash3: { volta: [0.45, 0.38], ampere: [0.78, 0.67], hopper: [0.81, 0.65], blackwell: [0.44, 0.38] },
};

/** With this number of keys, a fused kernel reaches half of its rate. Source: the papers' curves by length. */
const RAMP_KEYS = 350;

/** Returns the time of one layer's attention core on one rank. */
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
 * Returns the time of two matmuls forward and four backward, and of the score matrix in memory: the fused scale-mask-softmax
 * and dropout (with a mask) read and write it between the matmuls. Source: Megatron-LM's CoreAttention.
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
  const matmuls = productSeconds(scores, gpu, precision, cal) + productSeconds(sums, gpu, precision, cal);
  const size = batch * queries * keys;
  const forward = trafficSeconds(size * (cal.scoreBytes - (dropout ? 0 : DROPOUT_BYTES)), gpu, cal);
  const backward = (4 / 3) * forward;
  return { forward: matmuls + forward, backward: 2 * matmuls + backward };
}

/** Bytes per score that dropout moves: read, written, and a byte of mask. */
const DROPOUT_BYTES = 5;

/** Backward computes the scores again: it has five matmuls, forward two. Source: Dao 2023, section 3.2. */
function fusedSeconds(
  { batch, queries, keys, headDim, causal }: AttentionCore,
  kernel: 'flash' | 'flash3',
  gpu: Gpu,
  precision: Precision,
): ForwardBackward {
  const flops = 4 * batch * queries * keys * headDim * (causal && queries === keys ? 0.5 : 1);
  const [forward, backward] = REACH[kernel][gpu.generation];
  // With fp8 matmuls, attention is still in 16 bits; float32 uses a kernel at the rate of TF32. Heads of 64 are
  // slower, because they fill only half of a tensor core's tile. Source: the same papers' curves by head size.
  const roof = gpu.gemmTflops * 1e12 * (precision === 'fp32' ? rateOf(precision, gpu.generation) : 1);
  const reached = roof * (keys / (keys + RAMP_KEYS)) * (headDim >= 128 ? 1 : 0.85);
  return { forward: flops / (reached * forward), backward: (2.5 * flops) / (reached * backward) };
}
