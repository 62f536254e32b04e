import type { Estimate, MemoryPrediction } from './prediction';

const GIB = 2 ** 30;

/** The peak with its range in bytes; `peak` itself is in GiB. */
export function peakInBytes({ peak }: MemoryPrediction): Estimate {
  return { value: peak.value * GIB, low: peak.low * GIB, high: peak.high * GIB };
}
