import type { AttentionKernel } from '../../config';
import type { Seconds } from '../../core';
import type { Calibration } from '../calibration';
import { GPUS, type Gpu } from '../hardware';
import type { Precision } from '../layout';
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

/** A kernel that does not write scores and probabilities to memory. */
export type FusedKernel = Exclude<AttentionKernel, 'unfused'>;

/** Sequence lengths of the published curves. */
const LENGTHS = [512, 1024, 2048, 4096, 8192, 16_384] as const;

type Curve = readonly number[];

/**
 * TFLOP/s of one kernel on one board by length: forward and backward, or only both together. Operations of causal attention
 * are halved, and backward has 2.5 times the operations of forward, as in all sources.
 */
interface Measured {
  readonly head: number;
  readonly causal: boolean;
  readonly forward?: Curve;
  readonly backward?: Curve;
  readonly both?: Curve;
}

/** Curves of one kernel, and the GEMM rate of the board on which they were measured, TFLOP/s (see hardware.ts). */
interface Board {
  readonly gemmTflops: number;
  readonly curves: readonly Measured[];
}

/**
 * Source: Dao-AILab/flash-attention, assets/flash2_a100_fwd_bwd_benchmark.png (A100 80GB SXM4: hidden size 2048, 16k tokens).
 * The labels of its bars were read by eye.
 */
const A100 = GPUS['A100-80G'].gemmTflops;
const ON_A100 = {
  flash1: board(A100, [
    [64, false, { both: [91, 92, 104, 108, 110, 110] }],
    [64, true, { both: [58, 70, 77, 87, 92, 97] }],
    [128, false, { both: [76, 72, 76, 80, 82, 83] }],
    [128, true, { both: [55, 62, 69, 76, 80, 83] }],
  ]),
  triton: board(A100, [
    [64, false, { both: [90, 102, 98, 98, 100, 100] }],
    [64, true, { both: [59, 75, 79, 76, 79, 80] }],
    [128, false, { both: [78, 85, 90, 93, 95, 95] }],
    [128, true, { both: [50, 61, 68, 74, 78, 80] }],
  ]),
  efficient: board(A100, [
    [64, false, { both: [68, 73, 76, 77, 75, 75] }],
    [64, true, { both: [51, 60, 66, 68, 69, 67] }],
    [128, false, { both: [83, 91, 95, 96, 97, 98] }],
    [128, true, { both: [58, 72, 82, 87, 91, 92] }],
  ]),
  flash: board(A100, [
    [64, false, { both: [132, 153, 162, 171, 175, 176] }],
    [64, true, { both: [88, 119, 140, 156, 165, 171] }],
    [128, false, { both: [151, 173, 187, 196, 201, 203] }],
    [128, true, { both: [99, 133, 155, 173, 182, 189] }],
  ]),
} as const;

/**
 * Source: Dao-AILab/flash-attention, assets/flash2_h100_fwd_bwd_benchmark.png (flash1, and flash with causal masks) and
 * assets/flash3_fp16_*.png (forward and backward separately; no causal backward), H100 80GB SXM5.
 */
const H100 = GPUS['H100-80G'].gemmTflops;
const ON_H100 = {
  flash1: board(H100, [
    [64, false, { both: [157, 159, 161, 161, 166, 168] }],
    [64, true, { both: [104, 123, 136, 138, 149, 156] }],
    [128, false, { both: [127, 127, 128, 131, 137, 139] }],
    [128, true, { both: [98, 109, 108, 126, 135, 137] }],
  ]),
  flash: board(H100, [
    [64, false, { forward: [282, 306, 318, 321, 322, 324], backward: [198, 238, 264, 279, 287, 291] }],
    [64, true, { both: [141, 192, 232, 257, 273, 284] }],
    [128, false, { forward: [309, 350, 362, 368, 370, 370], backward: [214, 260, 291, 310, 318, 322] }],
    [128, true, { both: [163, 221, 265, 294, 308, 328] }],
  ]),
  flash3: board(H100, [
    [64, false, { forward: [333, 392, 460, 476, 496, 497], backward: [272, 363, 422, 453, 472, 474] }],
    [64, true, { forward: [197, 265, 371, 420, 460, 473] }],
    [128, false, { forward: [467, 565, 625, 638, 646, 648], backward: [316, 424, 501, 542, 559, 561] }],
    [128, true, { forward: [292, 423, 521, 579, 602, 616] }],
    [256, false, { forward: [482, 639, 707, 736, 746, 756] }],
    [256, true, { forward: [286, 427, 537, 612, 628, 642] }],
  ]),
  cudnn: board(H100, [
    [64, false, { forward: [335, 373, 395, 408, 412, 413], backward: [266, 348, 395, 417, 432, 433] }],
    [64, true, { forward: [225, 288, 334, 363, 379, 388] }],
    [128, false, { forward: [497, 574, 617, 609, 600, 595], backward: [305, 408, 465, 499, 518, 516] }],
    [128, true, { forward: [315, 410, 484, 518, 529, 539] }],
    [256, false, { forward: [470, 546, 580, 581, 580, 581] }],
    [256, true, { forward: [308, 391, 450, 483, 497, 509] }],
  ]),
} as const;

/**
 * Source: Dao-AILab/flash-attention's issue tracker (FlashAttention 2.7.4 on B200, head size 64); NVIDIA/cudnn-frontend's
 * benchmark of SDPA 9.22 on GB200 from 2048 tokens on. For shorter lengths, the curve has the shape of H100's curve.
 */
const ON_BLACKWELL = {
  flash: board(GPUS['B200-180G'].gemmTflops, [
    [64, false, { forward: [308, 359, 381, 307, 343, 379], backward: [243, 281, 302, 315, 329, 334] }],
  ]),
  cudnn: board(GPUS['GB200-186G'].gemmTflops, [
    [
      128,
      false,
      { forward: [1154, 1333, 1433, 1599, 1771, 1697], backward: [737, 986, 1124, 1350, 1404, 1374] },
    ],
    [128, true, { forward: [714, 929, 1097, 1408, 1574, 1708], backward: [580, 777, 885, 1148, 1332, 1328] }],
  ]),
} as const;

type Table = Readonly<Record<FusedKernel, Board>>;

/**
 * The curves that are used for a kernel on GPUs of a generation; the rate scales with the GPU's GEMM rate. FlashAttention 3 is
 * written for Hopper, and cuDNN's curves are known only for Hopper and newer GPUs, so older GPUs use FlashAttention 2's curves
 * for both kernels. Volta runs only the memory-efficient kernel (PyTorch's SDPA chooses it there). No training curves are
 * published for AMD, Ascend and GeForce, so these GPUs use A100's curves.
 */
const AMPERE: Table = { ...ON_A100, flash3: ON_A100.flash, cudnn: ON_A100.flash };
const CURVES: Readonly<Record<Gpu['generation'], Table>> = {
  volta: {
    flash1: ON_A100.efficient,
    triton: ON_A100.efficient,
    efficient: ON_A100.efficient,
    flash: ON_A100.efficient,
    flash3: ON_A100.efficient,
    cudnn: ON_A100.efficient,
  },
  ampere: AMPERE,
  ada: AMPERE,
  hopper: { ...ON_H100, triton: ON_A100.triton, efficient: ON_A100.efficient },
  blackwell: {
    ...ON_H100,
    ...ON_BLACKWELL,
    triton: ON_A100.triton,
    efficient: ON_A100.efficient,
    flash3: ON_BLACKWELL.flash,
  },
  cdna: AMPERE,
  ascend: AMPERE,
};

/**
 * Rate of forward divided by the rate of backward, used if only both together were measured. Source: H100's curves of
 * FlashAttention 2, long sequences. `older` is fitted: MPT's runs with recompute repeat only the forward. It is in the range of Dao
 * 2023, section 1: FlashAttention 1 reaches 30 to 50% of the peak forward and 25 to 35% backward.
 */
const FORWARD_OVER_BACKWARD: Readonly<Record<'flash' | 'older', number>> = { flash: 1.15, older: 2 };

/**
 * Fitted: rate of FlashAttention 1 with heads of 128 divided by the rate in the figures above (`both`). The rows are MPT's; its port
 * of the kernel to Triton has this rate at all lengths, and with heads of 64 the figures' rate.
 */
const WIDE_HEADS = 1.12;

/** Returns the TFLOP/s of a kernel's forward and backward on a GPU. */
export function attentionRates(
  kernel: FusedKernel,
  { keys, headDim, causal }: { readonly keys: number; readonly headDim: number; readonly causal: boolean },
  { generation, gemmTflops }: Gpu,
): { readonly forward: number; readonly backward: number } {
  const { curves, gemmTflops: reference } = CURVES[generation][kernel];
  const shape = kernel === 'flash' ? 'flash' : 'older';
  const at = (head: number) => ratesAt(curves, { head, causal, keys }, FORWARD_OVER_BACKWARD[shape]);
  const scale = gemmTflops / reference;
  const [low, high] = headsAround(curves, headDim);
  const [a, b] = [at(low), at(high)];
  const weight = low === high ? 0 : (headDim - low) / (high - low);
  // A head that is smaller than the smallest measured head fills only a part of the same tiles.
  const filled =
    Math.min(1, headDim / low) * scale * (kernel === 'flash1' && headDim >= 128 ? WIDE_HEADS : 1);
  return {
    forward: filled * (a.forward + weight * (b.forward - a.forward)),
    backward: filled * (a.backward + weight * (b.backward - a.backward)),
  };
}

/**
 * Returns the measured head sizes below and above a head size. Outside of the measured range, both are the nearest measured size.
 */
function headsAround(curves: readonly Measured[], headDim: number): readonly [low: number, high: number] {
  const heads = [...new Set(curves.map(({ head }) => head))].sort((a, b) => a - b);
  const low = heads.findLast((head) => head <= headDim) ?? heads[0] ?? headDim;
  return [low, heads.find((head) => head >= headDim) ?? low];
}

interface Point {
  readonly head: number;
  readonly causal: boolean;
  readonly keys: number;
}

function ratesAt(curves: readonly Measured[], point: Point, ratio: number) {
  const own = curves.find(({ head, causal }) => head === point.head && causal === point.causal);
  const whole = curves.find(({ head, causal }) => head === point.head && !causal);
  const rates = own ?? whole;
  if (rates?.both !== undefined) {
    const both = rateAt(rates.both, point.keys);
    const backward = (both * (1 / ratio + 2.5)) / 3.5;
    return { forward: ratio * backward, backward };
  }
  const forward = rateAt(rates?.forward ?? [], point.keys);
  if (rates?.backward !== undefined) return { forward, backward: rateAt(rates.backward, point.keys) };
  // If backward was measured only for another mask or head size, the ratio of backward to forward is that of the measured curve.
  const ratioCurve = whole?.backward === undefined ? curves.findLast(({ backward }) => backward) : whole;
  const share =
    rateAt(ratioCurve?.backward ?? [], point.keys) / rateAt(ratioCurve?.forward ?? [], point.keys);
  return { forward, backward: forward * share };
}

/** Below the shortest measured length, a rate is proportional to keys / (keys + RAMP_KEYS). */
const RAMP_KEYS = 350;

/** Returns the rate at a length: linear in the logarithm between two lengths of the curve, and constant above the last length. */
function rateAt(curve: Curve, keys: number): number {
  const [shortest] = LENGTHS;
  const [first = Number.NaN] = curve;
  if (keys <= shortest) {
    const ramp = (length: number): number => length / (length + RAMP_KEYS);
    return (first * ramp(keys)) / ramp(shortest);
  }
  const place = Math.min(LENGTHS.length - 1, Math.log2(keys / shortest));
  const below = Math.floor(place);
  const low = curve[below] ?? Number.NaN;
  const high = curve[Math.min(below + 1, LENGTHS.length - 1)] ?? low;
  return low + (place - below) * (high - low);
}

type Row = readonly [head: number, causal: boolean, rates: Omit<Measured, 'head' | 'causal'>];

function board(gemmTflops: number, rows: readonly Row[]): Board {
  return { gemmTflops, curves: rows.map(([head, causal, rates]) => ({ head, causal, ...rates })) };
}
