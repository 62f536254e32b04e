/** Consecutive rows of a Parquet file: the values of each column. */
export interface ParquetRows {
  readonly numRows: number;
  readonly columns: readonly (readonly unknown[])[];
}

/** A Parquet file whose metadata was read. */
export interface OpenParquet {
  /** The names of the file's columns. */
  readonly names: readonly string[];
  readonly numRows: number;
  /** Reads the rows of some columns, one row group after the other, in parts of at most `MOST_ROWS` rows. Throws: errors of the package. */
  rows(columns: readonly string[]): AsyncGenerator<ParquetRows>;
}

/** The number of rows that are sent at once; a row may have an image. */
const MOST_ROWS = 256;

/** Opens a Parquet file in this process. Throws: errors of the package, and Error for numbers of rows that contradict each other. */
export async function openParquet(file: string): Promise<OpenParquet> {
  // These packages are loaded on first use, by import() because they are ES modules.
  const hyparquet = await import('hyparquet');
  const { compressors } = await import('hyparquet-compressors');
  const source = await hyparquet.asyncBufferFromFile(file);
  const metadata = await hyparquet.parquetMetadataAsync(source);
  const groups = metadata.row_groups.map(({ num_rows }) => Number(num_rows));
  const numRows = Number(metadata.num_rows);
  const inGroups = groups.reduce((sum, num) => sum + num, 0);
  if (groups.some((num) => num < 0) || inGroups !== numRows)
    throw new Error(`it says ${numRows} rows, but its row groups have ${groups.slice(0, 5).join(', ')}`);
  return {
    names: hyparquet.parquetSchema(metadata).children.map(({ element }) => element.name),
    numRows,
    async *rows(names) {
      let first = 0;
      // Only one row group is in memory at a time.
      for (const num of groups) {
        const options = { file: source, metadata, rowStart: first, rowEnd: first + num, compressors };
        const group: unknown[][] = [];
        // One column after the other: if two fail together, the reader of several columns leaves the second error to nobody.
        for (const name of names) {
          const rows = await hyparquet.parquetReadObjects({ ...options, columns: [name] });
          group.push(rows.map((row) => row[name]));
        }
        for (let at = 0; at < num; at += MOST_ROWS) {
          const end = Math.min(num, at + MOST_ROWS);
          yield { numRows: end - at, columns: group.map((values) => values.slice(at, end)) };
        }
        first += num;
      }
    },
  };
}
