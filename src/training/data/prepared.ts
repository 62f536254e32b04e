import type { OwnData } from '../../config';
import type { ImageSize } from './files/image';
import type { VideoSize } from './video-coder';

/*
 * [Note: prepared data] The launcher (for a dataLoader: rank 0) reads the user's files once: it checks them, turns texts into
 * token ids and columns into numbers, and writes the numbers into files of the job's folder. Ranks get the description below,
 * as plain JSON, and read the rows of each microbatch from these files by position. So no rank holds the data in memory. Ranks
 * need no tokenizer (except rank 0 of a dataLoader). When a run resumes, a rank can read any microbatch directly. Images stay in
 * their files, and ranks decode them. Videos are decoded once, into bytes of the size that the model needs.
 */

/** A user's data in a form that ranks read. [Note: prepared data] */
export type PreparedData = PreparedTokens | PreparedRows | PreparedInstructions | PreparedVideos;

/** A user's data, and the form that a model of videos needs them in. */
export interface DataToPrepare extends OwnData {
  /** Undefined for other models. */
  readonly videos?: VideoForm | undefined;
}

/** The form of the videos of a model. */
export interface VideoForm {
  readonly size: VideoSize;
  /** Token ids per text. */
  readonly textLen: number;
}

/** Consecutive token ids in a file. */
export interface TokenSpan {
  readonly file: string;
  /** The index of the first token in the file. */
  readonly from: number;
  readonly count: number;
}

export type TokenArray = Uint8Array | Uint16Array | Uint32Array;

/** The number of bytes in which a token id is stored. */
export type TokenBytes = 1 | 2 | 4;

/** The class of arrays for token ids, by bytes per id. */
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
  /** The data's name in messages to the user: the path that the user gave. */
  readonly name: string;
  /** Number of different tokens. */
  readonly vocab: number;
  /** The source of token ids, for error messages: 'bytes', 'tokenizer ./tokenizer.json' or 'tokens'. */
  readonly tokenizer: string;
  /** A text that identifies the values to train on. */
  readonly fingerprint: string;
  readonly train: TokenSpan;
  readonly validation: TokenSpan | null;
  readonly shuffle: boolean;
  readonly dropLast: boolean;
}

/** Rows with inputs x and, unless the data has none, targets y. */
export interface PreparedRows {
  readonly kind: 'rows';
  readonly name: string;
  /** A text that identifies the values to train on. */
  readonly fingerprint: string;
  readonly train: RowPart;
  readonly validation: RowPart | null;
  /** The names of classes in sorted order: the words of y, or the folders of images. Null if y is numbers. */
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
  /** A text that identifies the values to train on. */
  readonly fingerprint: string;
  /** Tokens per row. */
  readonly seq: number;
  /** Whether a row may have several examples. [Note: packed sequences] */
  readonly isPacked: boolean;
  /** Whether a row is a pair of examples: a conversation with the chosen answer, then the same with the rejected answer. */
  readonly isPaired: boolean;
  readonly train: ExamplePart;
  readonly validation: ExamplePart | null;
  /** Sentences for the user about examples that were left out or cut. */
  readonly notes: readonly string[];
  readonly shuffle: boolean;
  readonly dropLast: boolean;
}

/** An index has these four numbers per example: its row, its first token, its number of tokens, and its number of targets. */
export const INDEX_COLUMNS = 4;

/** The paths of the files that contain examples. */
export interface ExamplePart {
  /** The file of token ids. */
  readonly tokens: string;
  /** A file with a byte per token: 1 if the token belongs to an answer, else 0. */
  readonly answers: string;
  /** A file with INDEX_COLUMNS float64 numbers per example, in order of rows. */
  readonly index: string;
  readonly numRows: number;
  readonly numExamples: number;
}

/** Videos with their texts. */
export interface PreparedVideos extends VideoForm {
  readonly kind: 'videos';
  readonly name: string;
  /** A text that identifies the values to train on. */
  readonly fingerprint: string;
  /** Number of different tokens. */
  readonly vocab: number;
  /** The source of token ids, for error messages. */
  readonly tokenizer: string;
  /** All words of the texts in sorted order: the id of a word is its index, plus 1. Null if a tokenizer gives the ids. */
  readonly words: readonly string[] | null;
  readonly train: RowPart<VideoFiles>;
  readonly validation: RowPart<VideoFiles> | null;
  /** Sentences for the user about texts that were cut. */
  readonly notes: readonly string[];
  readonly shuffle: boolean;
  readonly dropLast: boolean;
}

/** Some rows of files: the `count` rows from index `from` on, in the order that `orderSeed` gives. */
export interface RowPart<Source = ColumnFiles | ImageFiles> {
  readonly source: Source;
  readonly from: number;
  readonly count: number;
  /** The seed of the permutation of rows; null if rows have the order of the files. */
  readonly orderSeed: number | null;
}

/** The shape and the type of one row's values in a column. */
export interface RowFormat {
  readonly shape: readonly number[];
  readonly dtype: 'float32' | 'int32';
}

/** A file with one column's values for all rows, as float64, so that every number is exact. */
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

/** Decoded videos, and their texts. */
export interface VideoFiles {
  readonly numRows: number;
  /** A file with a byte per value. Shapes: [numRows, 3, frames, rows, columns]. */
  readonly pixels: string;
  /** A file of uint32, 0 for padding. Shapes: [numRows, textLen]. */
  readonly tokens: string;
  /** The text of each row. */
  readonly prompts: readonly string[];
}
