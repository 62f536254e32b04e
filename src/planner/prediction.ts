import type { Bytes, Seconds } from '../core';

/** A predicted number with its interval. */
export interface Estimate {
  readonly value: number;
  readonly low: number;
  readonly high: number;
}

/** The memory of the worst rank's GPU at its peak, by cause. */
export interface MemoryPrediction {
  /** The peak in GiB; the other sizes are in bytes. */
  readonly peak: Estimate;
  /** Sum of all causes: parameters, gradients, optimizer, activations and temporary memory. */
  readonly peakBytes: Bytes;
  readonly params: Bytes;
  readonly grads: Bytes;
  readonly optimizer: Bytes;
  readonly activations: Bytes;
  readonly temporary: Bytes;
  /** The phase of the step in which the peak is reached. */
  readonly phase: string;
  /** The pipeline stage that reaches the peak. */
  readonly stage: number;
  readonly largestAssumption: string;
}

/** The time of an iteration on the slowest path, by cause; seconds. */
export interface TimePrediction {
  readonly seconds: Seconds;
  readonly compute: Seconds;
  readonly exposedComm: Seconds;
  readonly bubble: Seconds;
  /** The parts of compute: matmuls, attention, element-wise work, loss, optimizer, launches. */
  readonly computeByCause: Readonly<Record<ComputeCause, Seconds>>;
  /** Wire bytes that one GPU receives in an iteration. */
  readonly commBytes: Readonly<Record<CommAxis, Bytes>>;
  /** Floating point operations of the model per GPU, without recomputation. Source: Narayanan et al. 2021, eq. 3. */
  readonly modelFlopsPerGpu: number;
}

export type ComputeCause = 'products' | 'attention' | 'elementwise' | 'loss' | 'optimizer' | 'launch';
export type CommAxis = 'dp' | 'tp' | 'pp' | 'cp' | 'ep';

/** The predicted time and memory of a layout. */
export interface Prediction {
  readonly time: TimePrediction;
  readonly seconds: Estimate;
  readonly tokensPerSecondPerGpu: number;
  readonly modelTflopsPerGpu: number;
  /** Model FLOP/s divided by the GPU's published peak. */
  readonly mfu: number;
  readonly memory: MemoryPrediction;
  readonly fits: boolean;
  readonly largestAssumption: string;
  /** The respects in which the layout differs from the runs on which the constants were fitted. */
  readonly outside: readonly string[];
}

const GIB = 2 ** 30;

/** Returns the peak with its interval in bytes; `peak` itself is in GiB. */
export function peakInBytes({ peak }: MemoryPrediction): Estimate {
  return { value: peak.value * GIB, low: peak.low * GIB, high: peak.high * GIB };
}
