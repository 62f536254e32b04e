import { short } from './format';

/** A quantity over several steps: its median, and its quartiles, between which half of the steps lie. */
export interface Spread {
  readonly median: number;
  readonly low: number;
  readonly high: number;
}

/** Median and quartiles, each one of the values: of fewer than four the outer ones; of nothing, zeros. */
export function spreadOf(values: readonly number[]): Spread {
  const sorted = [...values].sort((a, b) => a - b);
  const last = Math.max(0, sorted.length - 1);
  const at = (place: number): number => sorted[place] ?? 0;
  return {
    median: at(sorted.length >> 1),
    low: at(Math.floor(last / 4)),
    high: at(Math.ceil((3 * last) / 4)),
  };
}

/** Whether the middle halves of two quantities have no value in common. */
export function areApart(a: Spread, b: Spread): boolean {
  return a.high < b.low || b.high < a.low;
}

/** How one quantity relates to another: medians divided, and the ratios of the quartiles' far ends. */
export function ratioOf(a: Spread, b: Spread): Spread {
  const over = (x: number, y: number): number => (y > 0 ? x / y : 1);
  return { median: over(a.median, b.median), low: over(a.low, b.high), high: over(a.high, b.low) };
}

/** How much less one quantity is than another: medians subtracted, and the quartiles' far ends. */
export function savingOf(least: Spread, most: Spread): Spread {
  return { median: most.median - least.median, low: most.low - least.high, high: most.high - least.low };
}

/** "(15–21)", the quartiles; nothing where one step was recorded. */
export function quartilesText({ low, high }: Spread, divisor: number): string {
  return low === high ? '' : `(${short(low / divisor)}–${short(high / divisor)})`;
}

/** Mean of some values; 0 of none. */
export function mean(values: readonly number[]): number {
  return values.length === 0 ? 0 : values.reduce((sum, value) => sum + value, 0) / values.length;
}
