import type { DataFrame } from 'danfojs-node';

/** Rows as a danfojs DataFrame with the given columns. The library is loaded on first use, which takes seconds. */
export async function frameOf(
  keys: readonly string[],
  rows: readonly Readonly<Record<string, unknown>>[],
): Promise<DataFrame> {
  const { DataFrame: Frame } = await import('danfojs-node');
  const values = rows.map((row) => keys.map((key) => row[key] ?? null));
  if (values.length === 0) return new Frame([], { columns: [] });
  return new Frame(values, { columns: [...keys] });
}
