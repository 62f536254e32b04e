/** Names ranks in the fewest words: [1] → "rank 1", [0,1,2,3] → "ranks 0-3", [0,2,3] → "ranks 0, 2, 3". */
export function rankNames(ranks: readonly number[]): string {
  if (ranks.length === 1) return `rank ${ranks[0]}`;
  return `ranks ${ranges(ranks).join(', ')}`;
}

function ranges(ranks: readonly number[]): string[] {
  const sorted = [...ranks].sort((a, b) => a - b);
  const parts: string[] = [];
  for (let start = 0; start < sorted.length; ) {
    let end = start;
    while (sorted[end + 1] === (sorted[end] ?? 0) + 1) end++;
    // Among other ranks, two or three neighbours are easier to read as single numbers than as a range.
    if (end - start >= 3 || (end - start >= 1 && end - start + 1 === sorted.length)) {
      parts.push(`${sorted[start]}-${sorted[end]}`);
    } else {
      parts.push(...sorted.slice(start, end + 1).map(String));
    }
    start = end + 1;
  }
  return parts;
}
