/** Whether a value is a whole number of at least `least`. */
export function isWhole(value: unknown, least: number): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= least;
}

/** Whether a value is the index of one of `length` items. */
export function isIndex(value: unknown, length: number): value is number {
  return isWhole(value, 0) && value < length;
}
