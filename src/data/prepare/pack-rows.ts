/**
 * Puts examples of some lengths into rows of `room` tokens: the longest first, each into the row in which the least room remains.
 * Returns the numbers of each row's examples, in ascending order. Source: best-fit decreasing, as TRL's 'bfd'.
 */
export function packRows(lengths: readonly number[], room: number): number[][] {
  const rows: number[][] = [];
  /** The numbers of the rows that have this much room left. */
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
