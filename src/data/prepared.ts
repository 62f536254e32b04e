import type { ImageSize } from './files/image';

/*
 * [Note: prepared data] The launcher (for a dataLoader: rank 0) reads the user's files once: it checks them, turns texts into
 * token ids and columns into numbers, and writes the numbers into files of the job's folder. Ranks get the description below,
 * as plain JSON, and read the rows of each microbatch from these files by position. So no rank holds the data in memory, ranks
 * need no tokenizer (except rank 0 of a dataLoader), and a rank reads any microbatch at once when a run resumes. Images stay in
 * their files, and ranks decode them.
 */

/** A user's data in a form that ranks read. [Note: prepared data] */
export type PreparedData = PreparedTokens | PreparedRows | PreparedInstructions;

/** Token ids in a file. */
export interface TokenSpan {
  readonly file: string;
  /** Number of the first token in the file. */
  readonly from: number;
  readonly count: number;
}

export type TokenArray = Uint8Array | Uint16Array | Uint32Array;

/** Bytes of one token id. */
export type TokenBytes = 1 | 2 | 4;

/** Arrays of token ids, by bytes per id. */
export const TOKEN_ARRAYS: Readonly<Record<TokenBytes, new (length: number) => TokenArray>> = {
  1: Uint8Array,
  2: Uint16Array,
  4: Uint32Array,
};

/** Returns how many bytes store a token id. */
export function tokenBytes(vocab: number): TokenBytes {
  return vocab <= 2 ** 8 ? 1 : vocab <= 2 ** 16 ? 2 : 4;
}

/** Texts as token ids. */
export interface PreparedTokens {
  readonly kind: 'tokens';
  /** The data's name for messages: the path that the user gave. */
  readonly name: string;
  /** Number of different tokens. */
  readonly vocab: number;
  /** The source of ids for messages: 'bytes', 'tokenizer ./tokenizer.json' or 'tokens'. */
  readonly tokenizer: string;
  /** Identifies the values to train on. */
  readonly fingerprint: string;
  readonly train: TokenSpan;
  readonly validation: TokenSpan | null;
  readonly shuffle: boolean;
  readonly dropLast: boolean;
}

/** Rows with inputs x and, mostly, targets y. */
export interface PreparedRows {
  readonly kind: 'rows';
  readonly name: string;
  /** Identifies the values to train on. */
  readonly fingerprint: string;
  readonly train: RowPart;
  readonly validation: RowPart | null;
  /** The words of y in sorted order, or the folders of images: class i is the i-th; null: y is numbers. */
  readonly classes: readonly string[] | null;
  readonly shuffle: boolean;
  readonly dropLast: boolean;
}

/** Conversations as token ids. Only the ids of answers count in the loss. */
export interface PreparedInstructions {
  readonly kind: 'instructions';
  readonly name: string;
  /** Number of different tokens. */
  readonly vocab: number;
  readonly tokenizer: string;
  /** Identifies the values to train on. */
  readonly fingerprint: string;
  /** Tokens per row. */
  readonly seq: number;
  /** Whether rows have several examples: [Note: packed sequences]. */
  readonly isPacked: boolean;
  readonly train: ExamplePart;
  readonly validation: ExamplePart | null;
  /** What was left out or cut, for the user. */
  readonly notes: readonly string[];
  readonly shuffle: boolean;
  readonly dropLast: boolean;
}

/** Numbers per example in an index: its row, its first token, its number of tokens, and how many of them are predicted for the loss. */
export const INDEX_COLUMNS = 4;

/** Examples in files. */
export interface ExamplePart {
  /** Token ids. */
  readonly tokens: string;
  /** A byte per token: 1 if it belongs to an answer. */
  readonly answers: string;
  /** INDEX_COLUMNS float64 numbers per example, in order of rows. */
  readonly index: string;
  readonly numRows: number;
  readonly numExamples: number;
}

/** Some rows of files: rows from, …, from + count - 1 of an order. */
export interface RowPart {
  readonly source: ColumnFiles | ImageFiles;
  readonly from: number;
  readonly count: number;
  /** The order is a permutation by this seed; null: the order of the files. */
  readonly orderSeed: number | null;
}

/** Shape and type of one row's values. */
export interface RowFormat {
  readonly shape: readonly number[];
  readonly dtype: 'float32' | 'int32';
}

/** One column's values of all rows in a file, as float64, so that every number is exact. */
export interface ColumnFile extends RowFormat {
  readonly file: string;
}

export interface ColumnFiles {
  readonly kind: 'columns';
  readonly numRows: number;
  readonly x: ColumnFile;
  readonly y: ColumnFile | null;
}

/** Image files and their classes. */
export interface ImageFiles {
  readonly kind: 'images';
  readonly numRows: number;
  readonly size: ImageSize;
  readonly files: readonly string[];
  readonly labels: readonly number[];
}
