import { readFileSync } from 'node:fs';
import { ConfigError, IGNORED_LABEL } from '../../core';
import type { EpochBatches, TokenBatch } from './batch';
import { requireVocab, type TokenBatchingOptions } from './open-data';
import {
  type ExamplePart,
  INDEX_COLUMNS,
  type PreparedInstructions,
  TOKEN_ARRAYS,
  tokenBytes,
} from './prepared';
import { createRowBatches } from './row-batches';
import { withFile } from './stored-numbers';

/** Options that say how instructions become batches. */
export interface InstructionBatchingOptions extends TokenBatchingOptions {
  /** Microbatches per step. */
  readonly accumulation: number;
}

/**
 * Opens prepared instructions as batches of tokens with labels. The loss of a step is the mean over the answers' tokens of all its
 * ranks and microbatches, so it does not depend on how examples are shared or packed. For this, each batch has a factor: the
 * batch's mean over all positions, times the factor, is the batch's part of the step's mean. Source: transformers' Trainer,
 * num_items_in_batch and average_tokens_across_devices.
 * Throws: CONFIG for tokens that the model does not have, and for rows of another length.
 */
export function openInstructions(
  data: PreparedInstructions,
  options: InstructionBatchingOptions,
): EpochBatches<TokenBatch> {
  const { name, shuffle, dropLast, seq } = data;
  const { batch: numRows, world, accumulation, vocab } = options;
  requireVocab(data, vocab);
  if (options.seq !== seq)
    throw new ConfigError(
      `data: rows were prepared with ${seq} tokens each, but model.seq is ${options.seq}`,
    );
  const train = openPart(data, data.train);
  const heldOut = data.validation && openPart(data, data.validation);
  const source = createRowBatches({ name, shuffle, dropLast, ...train, validation: heldOut }, options);
  const positions = numRows * seq;
  let known = { first: -1, factor: 1 };
  /** Returns a step's number of positions, divided by its number of targets; `first` is the index of its first microbatch. */
  const factorOf = (first: number): number => {
    if (known.first === first) return known.factor;
    let targets = 0;
    for (let micro = 0; micro < accumulation; micro++) {
      for (let rank = 0; rank < world; rank++) targets += train.targetsIn(source.rows(rank, first + micro));
    }
    known = { first, factor: (world * accumulation * positions) / targets };
    return known.factor;
  };
  const { validation } = source;
  const restFactor =
    heldOut === null
      ? 1
      : (heldOut.numRows * seq) / heldOut.targetsIn(Array.from({ length: heldOut.numRows }, (_, i) => i));
  return {
    ...source,
    batch: (rank, index, first = index - (index % accumulation)) =>
      scaled(source.batch(rank, index), factorOf(first)),
    validation: validation && {
      ...validation,
      batch(rank, index) {
        const { batch, counted } = validation.batch(rank, index);
        return { batch: scaled(batch, restFactor), counted };
      },
    },
  };
}

function scaled(batch: TokenBatch, factor: number): TokenBatch {
  const { answers } = batch;
  return answers === undefined ? batch : { ...batch, answers: { ...answers, factor } };
}

/** An example within a row: its first token, its number of tokens, and its number of targets. */
interface RowExample {
  readonly start: number;
  readonly length: number;
  readonly targets: number;
}

function openPart(data: PreparedInstructions, part: ExamplePart) {
  const rows = rowsIn(part);
  const targetsIn = (numbers: readonly number[]): number =>
    numbers.reduce((sum, row) => sum + (rows[row] ?? []).reduce((all, { targets }) => all + targets, 0), 0);
  return {
    numRows: part.numRows,
    targetsIn,
    read: (numbers: readonly number[]): TokenBatch =>
      readRows(
        data,
        part,
        numbers.map((row) => rows[row] ?? []),
      ),
  };
}

/** Reads the index file, and returns the examples of each row. */
function rowsIn({ index, numRows }: ExamplePart): readonly (readonly RowExample[])[] {
  const bytes = readFileSync(index);
  const numbers = new Float64Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength));
  const rows = Array.from({ length: numRows }, (): RowExample[] => []);
  for (let at = 0; at < numbers.length; at += INDEX_COLUMNS) {
    const [row = 0, start = 0, length = 0, targets = 0] = numbers.subarray(at, at + INDEX_COLUMNS);
    rows[row]?.push({ start, length, targets });
  }
  return rows;
}

/** Reads rows: examples one after the other, then padding. No other token attends to the padding, and it does not count. */
function readRows(
  { vocab, seq, isPacked }: PreparedInstructions,
  part: ExamplePart,
  rows: readonly (readonly RowExample[])[],
): TokenBatch {
  const tokens = new Int32Array(rows.length * (seq + 1));
  const labels = new Int32Array(rows.length * seq).fill(IGNORED_LABEL);
  const Tokens = TOKEN_ARRAYS[tokenBytes(vocab)];
  withFile(part.tokens, (readTokens) =>
    withFile(part.answers, (readAnswers) => {
      for (const [row, examples] of rows.entries()) {
        let at = 0;
        for (const { start, length } of examples) {
          const [ids, isAnswer] = [new Tokens(length), new Uint8Array(length)];
          readTokens(ids, start);
          readAnswers(isAnswer, start);
          tokens.set(ids, row * (seq + 1) + at);
          // The label of a position is the next token.
          for (let i = 1; i < length; i++)
            if (isAnswer[i] === 1) labels[row * seq + at + i - 1] = ids[i] ?? IGNORED_LABEL;
          at += length;
        }
      }
    }),
  );
  const documents = isPacked ? rows.map((examples) => documentsOf(examples, seq)) : null;
  return { batch: rows.length, seq, tokens, answers: { labels, documents, factor: 1 } };
}

/** Returns the lengths in tokens of a row's examples, and of its padding if there is any. */
function documentsOf(examples: readonly RowExample[], seq: number): number[] {
  const lengths = examples.map(({ length }) => length);
  const rest = seq - lengths.reduce((sum, length) => sum + length, 0);
  return rest === 0 ? lengths : [...lengths, rest];
}
