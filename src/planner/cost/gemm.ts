import type { Seconds } from '../../core';
import type { Calibration } from '../calibration';
import { GENERATIONS } from '../generations';
import type { Gpu } from '../hardware';
import type { Precision } from '../layout';

/** `batch` matmuls of [m, k] x [k, n]. */
export interface Matmul {
  readonly m: number;
  readonly n: number;
  readonly k: number;
  readonly batch?: number;
  /** Whether one kernel computes several matmuls of full size (experts); their thread blocks begin and end as in one matmul. */
  readonly isGrouped?: boolean;
}

/** Tiles that a thread block can compute, and their share of the GPU's matmul rate. Source: CUTLASS's default shapes. */
const TILES = [
  { rows: 256, columns: 128, reach: 1 },
  { rows: 128, columns: 256, reach: 1 },
  { rows: 128, columns: 128, reach: 0.94 },
  { rows: 128, columns: 64, reach: 0.8 },
  { rows: 64, columns: 128, reach: 0.8 },
  { rows: 64, columns: 64, reach: 0.65 },
] as const;

/** Numbers of parts of k that separate thread blocks can compute; their results are then added. Source: split-K of cuBLAS. */
const SPLITS = [1, 2, 4] as const;

/** Returns the rate of matmuls in a precision divided by their rate in bf16. */
export function matmulRateOf(precision: Precision, { generation }: Pick<Gpu, 'generation'>): number {
  const { fp32Rate, fp8Rate, sustained } = GENERATIONS[generation];
  if (precision === 'fp32') return fp32Rate;
  return precision === 'fp8' ? (fp8Rate ?? 1) : sustained;
}

export const ITEM_BYTES: Record<Precision, number> = { bf16: 2, fp16: 2, fp32: 4, fp8: 2 };

/**
 * Returns the time of a matmul in seconds. The matmul runs in waves of tiles over the multiprocessors, each with a start-up time
 * (ramp in k). Its time is never less than the time of its memory traffic.
 */
export function productSeconds(
  { m, n, k, batch = 1, isGrouped = false }: Matmul,
  gpu: Gpu,
  precision: Precision,
  cal: Calibration,
): Seconds {
  const { sms } = gpu;
  const flopsPerSm = (gpu.gemmTflops * 1e12 * matmulRateOf(precision, gpu) * cal.gemmEfficiency) / sms;
  // Prologue and epilogue take as long in fp8 as in 16 bits: the results have 16 bits.
  const ramp =
    (batch > 1 && !isGrouped ? cal.batchedRampK : cal.gemmRampK) * Math.max(1, matmulRateOf(precision, gpu));
  let best = Number.POSITIVE_INFINITY;
  for (const { rows, columns, reach } of TILES) {
    const tiles = Math.ceil(m / rows) * Math.ceil(n / columns) * batch;
    for (const split of SPLITS) {
      const depth = k / split;
      if (split > 1 && (depth < 1024 || tiles >= sms)) break;
      const filled = (tiles * split) / sms;
      const waves = Math.max(1, filled + cal.gemmTail * (Math.ceil(filled) - filled));
      const seconds = (waves * 2 * rows * columns * (depth + ramp)) / (flopsPerSm * reach);
      if (seconds < best) best = seconds;
    }
  }
  const traffic = (m * k + k * n + m * n) * batch * ITEM_BYTES[precision];
  return Math.max(best, trafficSeconds(traffic, gpu, cal));
}

/** Returns the time to read or write this number of bytes in the GPU's memory. */
export function trafficSeconds(bytes: number, gpu: Gpu, cal: Calibration): Seconds {
  return bytes / (gpu.hbmTBps * 1e12 * cal.memoryEfficiency);
}
