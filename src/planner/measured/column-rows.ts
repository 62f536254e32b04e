/**
 * A table of rows and columns, in the order in which its source has the columns. A column with the same value in all rows is in
 * `constants`, and rows have no cell for it. For a column of `values`, cells are indices of its values.
 */
export interface ColumnTable {
  readonly columns: readonly string[];
  readonly constants?: Readonly<Record<string, unknown>>;
  readonly values?: Readonly<Record<string, readonly unknown[]>>;
  readonly rows: readonly (readonly unknown[])[];
}

/** A row: a value for each column, in the order of the columns. */
export type ColumnRow = Readonly<Record<string, unknown>>;

/** Returns the rows of a table. */
export function rowsOf({ columns, constants = {}, values = {}, rows }: ColumnTable): readonly ColumnRow[] {
  return rows.map((cells) => {
    const rest = [...cells];
    const entries = columns.map((name) => {
      if (name in constants) return [name, constants[name]];
      const cell = rest.shift();
      return [name, values[name]?.[Number(cell)] ?? cell];
    });
    return Object.fromEntries(entries);
  });
}
