import { ConfigError, shown } from '../../../core';
import type { ColumnFile } from '../prepared';
import { NumberFile } from './number-file';

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
export class ColumnWriter {
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
export const BEYOND_FLOAT32 = 'is beyond the largest number of float32, 3.4e38';

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
