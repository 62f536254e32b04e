import { isNames, type NumberArray, type OwnData } from '../../../config';
import { ConfigError, shown } from '../../../core';
import type { FoundFiles } from '../files/find-files';
import { recordsOf } from '../files/records';
import type { ColumnFile, ColumnFiles, PreparedRows, RowPart } from '../prepared';
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
  return {
    kind: 'rows',
    name,
    classes,
    ...splitRows(data, { digest, seed, unit: 'rows' }, source, validationSource),
  };
}

/** A hash of rows' values, the seed of their split, and what a row is. */
interface SplitFacts extends Pick<RowFacts, 'digest' | 'seed'> {
  readonly unit: string;
}

/** Returns the part of rows to train on and the part for validation; `rowsOf` says how they are chosen. */
export function splitRows<Source extends { readonly numRows: number }>(
  data: Pick<OwnData, 'validation' | 'shuffle' | 'dropLast'>,
  { digest, seed, unit }: SplitFacts,
  source: Source,
  validationSource: Source | null,
) {
  const { numRows } = source;
  const share = validationCount(data, numRows, unit);
  const orderSeed = share === 0 ? null : seed;
  const part = (from: number, count: number): RowPart<Source> => ({ source, from, count, orderSeed });
  const cut = share === 0 ? null : part(numRows - share, share);
  return {
    fingerprint: `${digest}:${numRows - share}:${orderSeed}`,
    train: part(0, numRows - share),
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
  if (format === 'text' || format === 'images' || format === 'videos') {
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

type Values = Readonly<Record<string, unknown>>;

/** The name of one column, whose values may be lists; or the names of several columns, whose values are single numbers. */
export type ColumnNames = string | readonly string[];

/** A column that was written to a file. */
export interface WrittenColumn {
  readonly column: ColumnFile;
  /** Returns a hash of the column's values; the file must be closed before. */
  readonly digest: () => string;
  /** The words of the column in sorted order; null if its values are numbers. */
  readonly classes: readonly string[] | null;
}

/** The file to which a column is written, and the form of its values. */
export interface ColumnFileOptions {
  readonly names: ColumnNames;
  readonly path: string;
  /** Whether the column is a target. Inputs are float32; targets are int32 if all are whole numbers or words. */
  readonly isTarget: boolean;
  /** The words in the rows to train on; this column may have no other words. Null if any words are allowed. */
  readonly classes: readonly string[] | null;
}

/** Writes one column, an input or a target, for all rows. The caller closes the writer. */
class ColumnWriter {
  readonly #options: ColumnFileOptions;
  readonly #file: NumberFile<Float64Array>;
  #shape: readonly number[] | undefined;
  #isWhole = true;
  /** The words in order of their first row; undefined if values are numbers. */
  #words: Map<string, number> | undefined;
  /** For each row, the index of its word in `#words`. */
  readonly #rows: number[] = [];

  constructor(options: ColumnFileOptions) {
    this.#options = options;
    this.#file = new NumberFile(options.path, Float64Array);
  }

  /**
   * Writes a row's value. Throws: CONFIG with the row, the column and the value, if the value is wrong or does not match
   * earlier rows.
   */
  write(place: string, row: Values): void {
    const { names, isTarget } = this.#options;
    const value = typeof names === 'string' ? row[names] : names.map((name) => row[name]);
    const isFirst = this.#shape === undefined && this.#words === undefined;
    if (isFirst && isTarget && isWord(value)) this.#words = new Map();
    if (this.#words === undefined) this.#writeNumbers(place, value);
    else this.#writeWord(place, this.#words, value);
  }

  /** Completes the column after the last row, because the indices of words are not known before. */
  end(): WrittenColumn {
    const { isTarget, classes: known } = this.#options;
    const { path: file } = this.#file;
    const digest = (): string => this.#file.digest;
    if (this.#words === undefined) {
      const dtype = isTarget && this.#isWhole ? 'int32' : 'float32';
      return { column: { file, shape: this.#shape ?? [], dtype }, digest, classes: null };
    }
    const words = [...this.#words.keys()];
    const classes = known ?? [...words].sort();
    const order = new Map(classes.map((word, index) => [word, index]));
    const indices = words.map((word) => order.get(word) ?? 0);
    this.#file.write(this.#rows.map((word) => indices[word] ?? 0));
    return { column: { file, shape: [], dtype: 'int32' }, digest, classes };
  }

  close(): void {
    this.#file.close();
  }

  #writeNumbers(place: string, value: unknown): void {
    const { names } = this.#options;
    const { numbers, shape } = numbersOf(value, (part, reason = 'is not a number') => {
      return new ConfigError(
        `data: ${place}: ${columnText(names)} has ${shown(part)}, which ${reason}; correct the row, or name other columns as x and y`,
      );
    });
    this.#shape ??= shape;
    if (this.#shape.join() !== shape.join()) {
      throw new ConfigError(
        `data: ${place}: ${columnText(names)} has shape [${shape.join(', ')}], but earlier rows have [${this.#shape.join(', ')}]; give all rows the same shape`,
      );
    }
    this.#isWhole &&= numbers.every((number) => Number.isInteger(number) && Math.abs(number) < 2 ** 31);
    this.#file.write(numbers);
  }

  #writeWord(place: string, words: Map<string, number>, value: unknown): void {
    const { names, classes } = this.#options;
    const word = String(value);
    if (classes !== null && !classes.includes(word)) {
      throw new ConfigError(
        `data: ${place}: ${columnText(names)} has ${shown(word)}, but the rows to train on have only ${classes.join(', ')}; correct the row`,
      );
    }
    const index = words.get(word) ?? words.size;
    words.set(word, index);
    this.#rows.push(index);
  }
}

function isWord(value: unknown): boolean {
  return typeof value === 'string' && (value.trim() === '' || Number.isNaN(Number(value)));
}

function columnText(names: ColumnNames): string {
  return typeof names === 'string' ? `column '${names}'` : `columns ${names.join(', ')}`;
}

interface Numbers {
  readonly numbers: readonly number[];
  readonly shape: readonly number[];
}

/** Makes the error for a value; without a reason, the value is not a number. */
type Wrong = (value: unknown, reason?: string) => ConfigError;

/** Returns the numbers of a number or of nested lists, and their shape. Throws: the error that `wrong` makes for other values. */
function numbersOf(value: unknown, wrong: Wrong): Numbers {
  if (Array.isArray(value) || (ArrayBuffer.isView(value) && !(value instanceof DataView))) {
    const parts = Array.from(value as ArrayLike<unknown>, (part) => numbersOf(part, wrong));
    const [first] = parts;
    if (parts.some(({ shape }) => shape.join() !== first?.shape.join())) throw wrong(value);
    return {
      numbers: parts.flatMap(({ numbers }) => numbers),
      shape: [parts.length, ...(first?.shape ?? [])],
    };
  }
  if (isWord(value)) throw wrong(value);
  const isScalar = ['number', 'bigint', 'boolean', 'string'].includes(typeof value);
  const number = isScalar ? Number(value) : Number.NaN;
  if (!Number.isFinite(number)) throw wrong(value);
  if (!Number.isFinite(Math.fround(number))) throw wrong(value, BEYOND_FLOAT32);
  if (isRounded(value, number)) throw wrong(value, `would be rounded to ${number}`);
  return { numbers: [number], shape: [] };
}

/** Why a number is refused that would become infinite. */
const BEYOND_FLOAT32 = 'is beyond the largest number of float32, 3.4e38';

/** Whether an integer has more digits than a number holds. Integers of files come as texts or bigint if they have many digits. */
function isRounded(value: unknown, number: number): boolean {
  if (Number.isSafeInteger(number)) return false;
  if (typeof value === 'bigint') return BigInt(number) !== value;
  return (
    typeof value === 'string' &&
    /^\s*[+-]?\d+\s*$/.test(value) &&
    BigInt(number) !== BigInt(value.replace('+', ''))
  );
}
