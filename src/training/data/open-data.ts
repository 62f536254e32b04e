import { ConfigError, ShardlabError } from '../../core';
import {
  type BatchColumn,
  type EpochBatches,
  type RowBatch,
  type TokenBatch,
  targetsOf,
  tokenInputsOf,
} from './batch';
import { CHANNELS, readImage } from './files/image';
import {
  type ColumnFile,
  type ImageFiles,
  type PreparedData,
  type PreparedRows,
  type PreparedTokens,
  type RowPart,
  TOKEN_ARRAYS,
  type TokenSpan,
  tokenBytes,
} from './prepared';
import { type BatchingOptions, createRowBatches } from './row-batches';
import { permutation } from './sampler';
import { withFile } from './stored-numbers';

/** Options that say how texts become batches. */
export interface TokenBatchingOptions extends BatchingOptions {
  readonly seq: number;
  /** The size of the model's vocabulary. */
  readonly vocab: number;
}

/**
 * Opens prepared texts as batches of tokens. Row i has seq + 1 tokens, from token i · seq on, so each token is predicted once per
 * epoch. Throws: CONFIG for a text that is shorter than a row, and for tokens that the model does not have.
 */
export function openTokens(data: PreparedTokens, options: TokenBatchingOptions): EpochBatches<TokenBatch> {
  const { seq, vocab } = options;
  const { name, train, validation, shuffle, dropLast } = data;
  requireVocab(data, vocab);
  const partOf = (part: TokenSpan, purpose: string) => {
    const numRows = Math.floor((part.count - 1) / seq);
    if (numRows < 1) {
      throw new ConfigError(
        `data: ${name} has ${part.count} tokens${purpose}, but a row has seq + 1 = ${seq + 1}; give more text or a smaller model.seq`,
      );
    }
    return { numRows, read: (rows: readonly number[]) => readTokens(data, part, rows, seq) };
  };
  const own = partOf(train, '');
  const heldOut = validation && partOf(validation, ' for validation');
  return createRowBatches({ name, shuffle, dropLast, ...own, validation: heldOut }, options);
}

/** Throws: CONFIG if the data's vocabulary is larger than the model's. */
export function requireVocab(data: Pick<PreparedTokens, 'vocab' | 'tokenizer'>, vocab: number): void {
  if (data.vocab <= vocab) return;
  throw new ConfigError(
    `data: ${data.tokenizer} has ${data.vocab.toLocaleString('en-US')} tokens, but the model's vocab is ` +
      `${vocab.toLocaleString('en-US')}; give model.vocab ${data.vocab} or more, or use a tokenizer with fewer tokens`,
  );
}

function readTokens(data: PreparedTokens, part: TokenSpan, rows: readonly number[], seq: number): TokenBatch {
  const tokens = new Int32Array(rows.length * (seq + 1));
  const stored = new TOKEN_ARRAYS[tokenBytes(data.vocab)](seq + 1);
  withFile(part.file, (read) => {
    for (const [i, row] of rows.entries()) {
      read(stored, part.from + row * seq);
      tokens.set(stored, i * (seq + 1));
    }
  });
  return { batch: rows.length, seq, tokens };
}

/**
 * Opens any prepared data as batches with inputs x and targets y. For texts, x and y are token ids [batch, seq], and y is x one
 * token later.
 * Throws: CONFIG for a text without `seq`, and for data without a row.
 */
export function openData(
  data: PreparedData,
  options: BatchingOptions & { readonly seq?: number | undefined },
): EpochBatches<RowBatch> {
  if (data.kind === 'rows') return openRows(data, options);
  if (data.kind !== 'tokens')
    throw new ShardlabError('INTERNAL', `${data.kind} are for models of this library`);
  const { seq } = options;
  if (seq === undefined) {
    throw new ConfigError(
      `data: ${data.name} is a text; give the number of tokens per row, for example data: { path, seq: 128 }`,
    );
  }
  // The vocabulary is not checked, because a user's own model reports a token that it does not have.
  const opened = openTokens(data, { ...options, seq, vocab: Number.POSITIVE_INFINITY });
  const { batch, validation } = opened;
  return {
    ...opened,
    batch: (rank, index) => asRows(batch(rank, index)),
    validation: validation
      ? {
          ...validation,
          batch(rank, index) {
            const { batch: tokens, counted } = validation.batch(rank, index);
            return { batch: asRows(tokens), counted };
          },
        }
      : null,
  };
}

function asRows(tokens: TokenBatch): RowBatch {
  const { batch, seq } = tokens;
  const column = (values: Int32Array): BatchColumn => ({ shape: [batch, seq], dtype: 'int32', values });
  return { batch, x: column(tokenInputsOf(tokens)), y: column(targetsOf(tokens)) };
}

/** Opens prepared rows as batches with inputs x and targets y. */
export function openRows(data: PreparedRows, options: BatchingOptions): EpochBatches<RowBatch> {
  const { name, train, validation, shuffle, dropLast } = data;
  if (train.count < 1) {
    throw new ConfigError(
      `data: ${name} has no rows to train on; give more rows or a smaller validation share`,
    );
  }
  const heldOut = validation && rowsOf(validation);
  return createRowBatches({ name, shuffle, dropLast, ...rowsOf(train), validation: heldOut }, options);
}

function rowsOf({ source, from, count, orderSeed }: RowPart) {
  const order = orderSeed === null ? null : permutation(source.numRows, orderSeed);
  const numbersOf = (rows: readonly number[]): number[] =>
    rows.map((row) => order?.[from + row] ?? from + row);
  return {
    numRows: count,
    read(rows: readonly number[]): RowBatch {
      const numbers = numbersOf(rows);
      if (source.kind === 'images') return readImages(source, numbers);
      const y = source.y && readColumn(source.y, numbers);
      return { batch: rows.length, x: readColumn(source.x, numbers), y };
    },
  };
}

function readColumn({ file, shape, dtype }: ColumnFile, rows: readonly number[]): BatchColumn {
  const size = shape.reduce((product, extent) => product * extent, 1);
  const values = new (dtype === 'int32' ? Int32Array : Float32Array)(rows.length * size);
  const stored = new Float64Array(size);
  withFile(file, (read) => {
    for (const [i, row] of rows.entries()) {
      read(stored, row * size);
      values.set(stored, i * size);
    }
  });
  return { shape: [rows.length, ...shape], dtype, values };
}

function readImages({ size, files, labels }: ImageFiles, rows: readonly number[]): RowBatch {
  const shape = [rows.length, CHANNELS, ...size];
  const length = CHANNELS * size[0] * size[1];
  const values = new Float32Array(rows.length * length);
  for (const [i, row] of rows.entries()) {
    readImage(files[row] ?? '', size, values.subarray(i * length, (i + 1) * length));
  }
  const classes = Int32Array.from(rows, (row) => labels[row] ?? 0);
  return {
    batch: rows.length,
    x: { shape, dtype: 'float32', values },
    y: { shape: [rows.length], dtype: 'int32', values: classes },
  };
}
