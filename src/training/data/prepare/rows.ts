import { isNames, type NumberArray, type OwnData } from '../../../config';
import { ConfigError } from '../../../core';
import type { FoundFiles } from '../files/find-files';
import { recordsOf } from '../files/records';
import type { ColumnFile, ColumnFiles, PreparedRows, RowPart } from '../prepared';
import { BEYOND_FLOAT32, ColumnWriter } from './column-writer';
import { NumberFile } from './number-file';
import type { PrepareParts } from './prepare-parts';
import { validationCount } from './validation-share';

/** Turns columns of JSONL, CSV and Parquet files into numbers. Throws: CONFIG naming file, line or row, column and value. */
export async function prepareColumns(data: OwnData, parts: PrepareParts): Promise<PreparedRows> {
  const { name, seed, validationFiles } = parts;
  const train = await writeTable(data, parts, parts.files, null);
  const { classes, digest } = train;
  const validation = validationFiles && (await writeTable(data, parts, validationFiles, classes));
  return rowsOf(data, { name, classes, seed, digest: digest() }, train.source, validation?.source ?? null);
}

/** Stores arrays that the user gave. Throws: CONFIG for values that do not fit the shape, and for x and y of different lengths. */
export function prepareArrays(
  data: OwnData,
  { fileFor, seed }: Pick<PrepareParts, 'fileFor' | 'seed'>,
): PreparedRows {
  const x = writeArray('x', data.x, fileFor);
  const y = writeArray('y', data.y, fileFor);
  if (x === null) throw new ConfigError('data: x is missing; give x and y as arrays');
  if (y !== null && x.numRows !== y.numRows) {
    throw new ConfigError(`data: x has ${x.numRows} rows, but y has ${y.numRows}; give one target per row`);
  }
  const digest = `${x.digest}:${y?.digest}`;
  const source: ColumnFiles = {
    kind: 'columns',
    numRows: x.numRows,
    x: x.column,
    y: y?.column ?? null,
  };
  return rowsOf(data, { name: `arrays of ${x.numRows} rows`, classes: null, seed, digest }, source, null);
}

/** The name and the classes of rows, a hash of their values, and the seed of their split. */
type RowFacts = Pick<PreparedRows, 'name' | 'classes'> & { readonly digest: string; readonly seed: number };

/**
 * Returns rows with a part to train on and a part for validation. The rows for validation are `validationSource`, or a share of `source`.
 * Source: torch.utils.data.random_split with a generator of the same seed, which chooses the same rows.
 */
export function rowsOf(
  data: OwnData,
  { name, classes, digest, seed }: RowFacts,
  source: RowPart['source'],
  validationSource: RowPart['source'] | null,
): PreparedRows {
  const { numRows } = source;
  const share = validationCount(data, numRows, 'rows');
  const orderSeed = share === 0 ? null : seed;
  const cut = share === 0 ? null : { source, from: numRows - share, count: share, orderSeed };
  return {
    kind: 'rows',
    name,
    classes,
    fingerprint: `${digest}:${numRows - share}:${orderSeed}`,
    train: { source, from: 0, count: numRows - share, orderSeed },
    validation:
      validationSource === null
        ? cut
        : { source: validationSource, from: 0, count: validationSource.numRows, orderSeed: null },
    shuffle: data.shuffle,
    dropLast: data.dropLast,
  };
}

interface Table {
  readonly source: ColumnFiles;
  readonly classes: readonly string[] | null;
  readonly digest: () => string;
}

/** Writes the columns of files. If the rows are for validation, `classes` has the classes of the rows to train on. */
async function writeTable(
  { x, y }: OwnData,
  { fileFor, read }: PrepareParts,
  { files, format }: FoundFiles,
  classes: readonly string[] | null,
): Promise<Table> {
  if (format === 'text' || format === 'images') {
    throw new ConfigError(
      `data.x: ${files[0]} has no columns; name JSONL, CSV or Parquet files, or leave x and y out`,
    );
  }
  const writerOf = (names: OwnData['x'], key: 'x' | 'y'): ColumnWriter | null =>
    isNames(names) ? new ColumnWriter({ names, path: fileFor(key), isTarget: key === 'y', classes }) : null;
  const writers = { x: writerOf(x, 'x'), y: writerOf(y, 'y') };
  const names = [x, y].filter(isNames).flat();
  let numRows = 0;
  try {
    for (const file of files) {
      for await (const { place, values } of recordsOf(file, format, names, read)) {
        writers.x?.write(place, values);
        writers.y?.write(place, values);
        numRows++;
      }
    }
    const [inputs, targets] = [writers.x?.end(), writers.y?.end()];
    if (inputs === undefined) throw new ConfigError('data: x is missing; name the columns of the inputs');
    const source = { kind: 'columns', numRows, x: inputs.column, y: targets?.column ?? null } as const;
    const digest = (): string => `${inputs.digest()}:${targets?.digest()}`;
    return { source, digest, classes: targets?.classes ?? null };
  } finally {
    writers.x?.close();
    writers.y?.close();
  }
}

function writeArray(
  key: 'x' | 'y',
  array: OwnData['x'],
  fileFor: PrepareParts['fileFor'],
): { readonly column: ColumnFile; readonly digest: string; readonly numRows: number } | null {
  if (array === undefined || isNames(array)) return null;
  const { values, shape } = isNumbers(array) ? { values: array, shape: [array.length] } : array;
  const [numRows = 0, ...extents] = shape;
  const size = shape.reduce((product, extent) => product * extent, 1);
  if (size !== values.length) {
    throw new ConfigError(
      `data.${key}: shape [${shape.join(', ')}] has ${size} numbers, but values has ${values.length}; the shape begins with the number of rows`,
    );
  }
  const isFloat = values instanceof Float32Array || values instanceof Float64Array;
  requireInRange(key, values, isFloat);
  const file = new NumberFile(fileFor(key), Float64Array);
  try {
    file.write(values);
  } finally {
    file.close();
  }
  const column = { file: file.path, shape: extents, dtype: isFloat ? 'float32' : 'int32' } as const;
  return { column, digest: file.digest, numRows };
}

/** Throws: CONFIG for a number that would become infinite as float32, or another number as int32. */
function requireInRange(key: 'x' | 'y', values: ArrayLike<number>, isFloat: boolean): void {
  for (let i = 0; i < values.length; i++) {
    const value = values[i] ?? 0;
    const isBeyond = isFloat
      ? Number.isFinite(value) && !Number.isFinite(Math.fround(value))
      : value >= 2 ** 31;
    if (!isBeyond) continue;
    const reason = isFloat ? BEYOND_FLOAT32 : 'is beyond the largest number of int32, 2147483647';
    throw new ConfigError(`data.${key}: number ${i} is ${value}, which ${reason}; scale the numbers`);
  }
}

function isNumbers(value: object): value is NumberArray {
  return ArrayBuffer.isView(value);
}
