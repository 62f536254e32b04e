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

/** Rows by column of a frame; of a series too, which has one column. */
export function rowsOf({ columns, values }: DataFrame): Record<string, unknown>[] {
  return values.map((row: unknown) =>
    Object.fromEntries(columns.map((key, i) => [key, Array.isArray(row) ? row[i] : row])),
  );
}

/** The prototype that frames and series, also those computed from them, have in common. */
export function commonPrototype(frame: DataFrame): object {
  let common: object = frame;
  for (
    let next: unknown = Object.getPrototypeOf(frame);
    typeof next === 'object' && next !== null && next !== Object.prototype;
    next = Object.getPrototypeOf(next)
  ) {
    common = next;
  }
  return common;
}
