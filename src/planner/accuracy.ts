import { mean, median, type Seconds } from '../core';

/** How predictions compare with measurements; errors are (predicted ÷ measured) − 1. */
export interface Accuracy {
  readonly count: number;
  /** Mean, median and maximum of absolute errors. */
  readonly mean: number;
  readonly median: number;
  readonly worst: number;
  /** Mean of signed errors. */
  readonly bias: number;
  /** Among pairs of runs with different measured times: the share in which the slower run also has the longer predicted time. */
  readonly pairsRanked: number;
}

/** The measured and the predicted time of one run. */
export interface MeasuredRun {
  readonly id: string;
  readonly measured: Seconds;
  readonly predicted: Seconds;
  /** The prediction of another time model, with which this planner is compared. */
  readonly baseline?: Seconds | undefined;
  /** Whether the constants were fitted on this run. Such runs are drawn, but do not count in the accuracy. */
  readonly fitted?: boolean | undefined;
}

/**
 * Compares predictions with measurements; without measurements, all results are 0. In `pairsRanked`, a pair with equal
 * predictions counts half.
 */
export function accuracyOf(pairs: readonly Pick<MeasuredRun, 'predicted' | 'measured'>[]): Accuracy {
  const errors = pairs.map(({ predicted, measured }) => predicted / measured - 1);
  const sizes = errors.map(Math.abs);
  return {
    count: pairs.length,
    mean: mean(sizes),
    median: sizes.length === 0 ? 0 : median(sizes),
    worst: Math.max(0, ...sizes),
    bias: mean(errors),
    pairsRanked: rankedShare(pairs),
  };
}

function rankedShare(pairs: readonly Pick<MeasuredRun, 'predicted' | 'measured'>[]): number {
  let ranked = 0;
  let all = 0;
  pairs.forEach((a, i) => {
    for (const b of pairs.slice(i + 1)) {
      if (a.measured === b.measured) continue;
      all++;
      const agreement = Math.sign(a.predicted - b.predicted) * Math.sign(a.measured - b.measured);
      ranked += agreement > 0 ? 1 : agreement === 0 ? 0.5 : 0;
    }
  });
  return all === 0 ? 0 : ranked / all;
}
