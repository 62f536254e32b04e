import type { Bytes, Seconds } from '../core/units';

/** A number with the range that it may lie in. */
export interface Estimate {
  readonly value: number;
  readonly low: number;
  readonly high: number;
}

/** What a GPU holds at its peak, by cause; the worst rank's. */
export interface MemoryPrediction {
  readonly peak: Estimate;
  /** Sum of the causes below. */
  readonly peakBytes: Bytes;
  readonly params: Bytes;
  readonly grads: Bytes;
  readonly optimizer: Bytes;
  readonly activations: Bytes;
  readonly temporary: Bytes;
  /** When the peak is reached. */
  readonly phase: string;
  /** Which pipeline stage reaches it. */
  readonly stage: number;
  readonly largestAssumption: string;
}

/** Where an iteration's time goes on the slowest path; seconds. */
export interface TimePrediction {
  readonly seconds: Seconds;
  readonly compute: Seconds;
  readonly exposedComm: Seconds;
  readonly bubble: Seconds;
  /** Of compute: matmuls, attention, element-wise work, loss, optimizer, launches. */
  readonly computeByCause: Readonly<Record<ComputeCause, Seconds>>;
  /** Wire bytes that one GPU receives in an iteration. */
  readonly commBytes: Readonly<Record<CommAxis, Bytes>>;
  /** Floating-point operations of the model a GPU, without what is recomputed. Source: Narayanan et al. 2021, eq. 3. */
  readonly modelFlopsPerGpu: number;
}

export type ComputeCause = 'products' | 'attention' | 'elementwise' | 'loss' | 'optimizer' | 'launch';
export type CommAxis = 'dp' | 'tp' | 'pp' | 'cp' | 'ep';

/** What a layout is expected to take and need. */
export interface Prediction {
  readonly time: TimePrediction;
  readonly seconds: Estimate;
  readonly tokensPerSecondPerGpu: number;
  readonly modelTflopsPerGpu: number;
  /** Model FLOP/s over the GPU's published peak. */
  readonly mfu: number;
  readonly memory: MemoryPrediction;
  readonly fits: boolean;
  readonly largestAssumption: string;
  /** Where the layout lies outside what the constants were fitted on. */
  readonly outside: readonly string[];
}

const GIB = 2 ** 30;

/** The peak with its range in bytes; `peak` itself is in GiB. */
export function peakInBytes({ peak }: MemoryPrediction): Estimate {
  return { value: peak.value * GIB, low: peak.low * GIB, high: peak.high * GIB };
}
