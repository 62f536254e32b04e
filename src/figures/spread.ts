import { short } from './format';

/** A quantity over several steps: its median, and its quartiles, between which half of the steps are. */
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

/** A quantity times a factor. */
export function scaled({ median, low, high }: Spread, factor: number): Spread {
  return { median: median * factor, low: low * factor, high: high * factor };
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

/** "(15–21)", the quartiles; nothing if they are equal, as of one step. */
export function quartilesText({ low, high }: Spread, divisor: number): string {
  return low === high ? '' : `(${short(low / divisor)}–${short(high / divisor)})`;
}

/** Mean of some values; 0 of none. */
export function mean(values: readonly number[]): number {
  return values.length === 0 ? 0 : sumOf(values, (value) => value) / values.length;
}

/** Sum over some items. */
export function sumOf<T>(items: readonly T[], of: (item: T) => number): number {
  return items.reduce((sum, item) => sum + of(item), 0);
}
