import { median } from '../core';
import { short } from './format';

/** A quantity over several steps: the median and the quartiles (half of the steps are between `low` and `high`). */
export interface Spread {
  readonly median: number;
  readonly low: number;
  readonly high: number;
}

/**
 * Returns the median and the quartiles; each quartile is one of the values. With fewer than four values, the quartiles are
 * the smallest and the largest value. Without values, all three are 0.
 */
export function spreadOf(values: readonly number[]): Spread {
  const sorted = [...values].sort((a, b) => a - b);
  const last = Math.max(0, sorted.length - 1);
  const at = (index: number): number => sorted[index] ?? 0;
  return {
    median: sorted.length === 0 ? 0 : median(sorted),
    low: at(Math.floor(last / 4)),
    high: at(Math.ceil((3 * last) / 4)),
  };
}

/** Multiplies a quantity by a factor. */
export function scaled({ median, low, high }: Spread, factor: number): Spread {
  return { median: median * factor, low: low * factor, high: high * factor };
}

/** Whether the middle halves of two quantities have no value in common. */
export function areApart(a: Spread, b: Spread): boolean {
  return a.high < b.low || b.high < a.low;
}

/** Returns a ÷ b: the ratio of the medians, with the smallest and the largest ratio of quartiles as its range. */
export function ratioOf(a: Spread, b: Spread): Spread {
  const over = (x: number, y: number): number => (y > 0 ? x / y : 1);
  return { median: over(a.median, b.median), low: over(a.low, b.high), high: over(a.high, b.low) };
}

/** Formats the quartiles, as "(15–21)"; '' if they are equal, as after one step. */
export function quartilesText({ low, high }: Spread, divisor: number): string {
  return low === high ? '' : `(${short(low / divisor)}–${short(high / divisor)})`;
}
