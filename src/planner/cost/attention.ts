import type { AttentionKernel } from '../../config';
import type { Seconds } from '../../core';
import type { Calibration } from '../calibration';
import type { Gpu } from '../hardware';
import type { Precision } from '../layout';
import { attentionRates, type FusedKernel } from './attention-rates';
import { matmulRateOf, productSeconds, trafficSeconds } from './gemm';

/** The core of attention, between the projections: scores, softmax, weighted sum. */
export interface AttentionCore {
  readonly kernel: AttentionKernel;
  /** Number of samples x number of heads, on one rank. */
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
 * Returns the time of two matmuls in forward and four in backward, and the time to move the score matrix. The fused
 * scale-mask-softmax and the dropout (with a mask) read and write this matrix between the matmuls. Source: Megatron-LM's
 * CoreAttention.
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

/** Forward has two matmuls; backward has five, because it computes the scores again. Source: Dao 2023, section 3.2. */
function fusedSeconds(
  { batch, queries, keys, headDim, causal }: AttentionCore,
  kernel: FusedKernel,
  gpu: Gpu,
  precision: Precision,
): ForwardBackward {
  const isHalf = causal && queries === keys;
  const flops = 4 * batch * queries * keys * headDim * (isHalf ? 0.5 : 1);
  const rates = attentionRates(kernel, { keys, headDim, causal }, gpu);
  // With fp8 matmuls, attention is still in 16 bits; float32 uses a kernel at the rate of TF32.
  const share = 1e12 * (precision === 'fp32' ? matmulRateOf(precision, gpu) : 1);
  return { forward: flops / (rates.forward * share), backward: (2.5 * flops) / (rates.backward * share) };
}
