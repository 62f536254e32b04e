/**
 * Puts examples into rows of `room` tokens, the longest example first. Each example goes into the row that has the least room
 * of all rows in which it fits.
 * Returns the indices of each row's examples, in ascending order. Source: best-fit decreasing, TRL's 'bfd'.
 */
export function packRows(lengths: readonly number[], room: number): number[][] {
  const rows: number[][] = [];
  /** For each amount of remaining room, in tokens, the indices of the rows that have it. */
  const byRoom = Array.from({ length: room + 1 }, (): number[] => []);
  const order = lengths.map((_, i) => i).sort((a, b) => (lengths[b] ?? 0) - (lengths[a] ?? 0) || a - b);
  for (const example of order) {
    const length = lengths[example] ?? 0;
    let left = length;
    while (left < room && (byRoom[left]?.length ?? 0) === 0) left++;
    const row = byRoom[left]?.pop() ?? rows.push([]) - 1;
    rows[row]?.push(example);
    byRoom[left - length]?.push(row);
  }
  for (const row of rows) row.sort((a, b) => a - b);
  return rows;
}
