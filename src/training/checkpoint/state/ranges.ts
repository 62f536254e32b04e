/** Elements [start, start + length) of a whole flattened parameter. */
export interface Range {
  readonly start: number;
  readonly length: number;
}

/** Returns the intersection of two ranges; null if the intersection is empty. */
export function overlapOf(a: Range, b: Range): Range | null {
  const start = Math.max(a.start, b.start);
  const end = Math.min(a.start + a.length, b.start + b.length);
  return end > start ? { start, length: end - start } : null;
}

/** Returns the parts of `ranges` that are also in one of `others`, in the order of `ranges`. */
export function commonRanges(ranges: readonly Range[], others: readonly Range[]): Range[] {
  return ranges.flatMap((range) => others.flatMap((candidate) => overlapOf(range, candidate) ?? []));
}

/** Returns the sum of the lengths of ranges. */
export function totalLength(ranges: readonly Range[]): number {
  return ranges.reduce((sum, { length }) => sum + length, 0);
}

/** Returns the parts of `ranges` that are in no range of `taken`, in the order of `ranges`. */
export function withoutRanges(ranges: readonly Range[], taken: readonly Range[]): Range[] {
  let left = ranges.filter(({ length }) => length > 0);
  for (const takenRange of taken) left = left.flatMap((part) => outside(part, takenRange));
  return left;
}

function outside(part: Range, cut: Range): Range[] {
  const common = overlapOf(part, cut);
  if (common === null) return [part];
  const end = part.start + part.length;
  const after = common.start + common.length;
  return [
    { start: part.start, length: common.start - part.start },
    { start: after, length: end - after },
  ].filter(({ length }) => length > 0);
}
