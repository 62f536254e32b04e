/** Returns the sum of `of` over all items. */
export function sumOf<T>(items: readonly T[], of: (item: T) => number): number {
  return items.reduce((sum, item) => sum + of(item), 0);
}

/** Returns the sum of numbers. */
export function total(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0);
}

/** Returns the mean; 0 without values. */
export function mean(values: readonly number[]): number {
  return values.length === 0 ? 0 : total(values) / values.length;
}

/** Returns the median: of an even number of values, the mean of the two in the middle. Without values, NaN. */
export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const [low = Number.NaN, high = Number.NaN] = [
    sorted[(sorted.length - 1) >> 1],
    sorted[sorted.length >> 1],
  ];
  return (low + high) / 2;
}
