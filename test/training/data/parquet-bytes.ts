/** A Parquet file of one row group and one column of texts, 'text', in one page. The numbers are what the file says. */
export interface WrittenParquet {
  readonly numRows: number;
  /** The number of rows in the file's metadata, if it is another. */
  readonly numRowsOfFile?: number;
  readonly encoding?: 'plain' | 'dictionary';
  /** Whether values may be missing, so that the page begins with runs of levels. */
  readonly isOptional?: boolean;
  readonly page: readonly number[];
}

const ENCODINGS = { plain: 0, dictionary: 8 } as const;
const [INT32, INT64, BINARY, LIST, STRUCT] = [5, 6, 8, 9, 12];
type Field = readonly [id: number, type: number | undefined, bytes: readonly number[]];

/** Returns the bytes of the file. Source: Thrift's compact protocol, parquet.thrift. */
export function parquetBytes({
  numRows,
  encoding = 'plain',
  isOptional = false,
  page,
  ...more
}: WrittenParquet): Buffer {
  const { numRowsOfFile = numRows } = more;
  const code = whole(ENCODINGS[encoding]);
  const size = whole(page.length);
  const numbers: Field[] = [
    [1, INT32, whole(numRows)],
    [2, INT32, code],
    [3, INT32, whole(3)],
    [4, INT32, whole(3)],
  ];
  const header = struct([
    [1, INT32, whole(0)],
    [2, INT32, size],
    [3, INT32, size],
    [5, STRUCT, struct(numbers)],
  ]);
  const bytes = whole(header.length + page.length);
  const column = struct([
    [1, INT32, whole(6)],
    [2, LIST, list(INT32, [code])],
    [3, LIST, list(BINARY, [text('text')])],
    [4, INT32, whole(0)],
    [5, INT64, whole(numRows)],
    [6, INT64, bytes],
    [7, INT64, bytes],
    [9, INT64, whole(4)],
  ]);
  const chunk = struct([
    [2, INT64, whole(4)],
    [3, STRUCT, column],
  ]);
  const group = struct([
    [1, LIST, list(STRUCT, [chunk])],
    [2, INT64, bytes],
    [3, INT64, whole(numRows)],
  ]);
  const root = struct([
    [4, BINARY, text('schema')],
    [5, INT32, whole(1)],
  ]);
  const repetition = whole(isOptional ? 1 : 0);
  const element = struct([
    [1, INT32, whole(6)],
    [3, INT32, repetition],
    [4, BINARY, text('text')],
    [6, INT32, whole(0)],
  ]);
  const footer = struct([
    [1, INT32, whole(1)],
    [2, LIST, list(STRUCT, [root, element])],
    [3, INT64, whole(numRowsOfFile)],
    [4, LIST, list(STRUCT, [group])],
  ]);
  const mark = Buffer.from('PAR1');
  return Buffer.concat([mark, Buffer.from([...header, ...page, ...footer, ...word(footer.length)]), mark]);
}

/** Returns a text as a plain page stores it. */
export function plainText(value: string): number[] {
  return [...word(Buffer.byteLength(value)), ...Buffer.from(value)];
}

/** Returns a run of equal levels, with its length before it. */
export function levels(count: number, level: number): number[] {
  const run = [...varint(2n * BigInt(count)), level];
  return [...word(run.length), ...run];
}

function word(value: number): number[] {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return [...bytes];
}

function varint(value: bigint): number[] {
  return value < 128n ? [Number(value)] : [Number(value & 127n) | 128, ...varint(value >> 7n)];
}

function whole(value: number): number[] {
  return varint(value < 0 ? -2n * BigInt(value) - 1n : 2n * BigInt(value));
}

function text(value: string): number[] {
  return [...varint(BigInt(value.length)), ...Buffer.from(value)];
}

function list(type: number | undefined, items: readonly (readonly number[])[]): number[] {
  return [(items.length << 4) | (type ?? 0), ...items.flat()];
}

function struct(fields: readonly Field[]): number[] {
  const parts = fields.map(([id, type = 0, bytes], i) => [
    ((id - (fields[i - 1]?.[0] ?? 0)) << 4) | type,
    ...bytes,
  ]);
  return [...parts.flat(), 0];
}
