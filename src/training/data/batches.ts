import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { functionsMissing, isVideoModel, modelShape, ownData, type TrainConfig } from '../../config';
import { ConfigError, IGNORED_LABEL, ShardlabError, seeded } from '../../core';
import type { BatchesOf, BatchShape, BatchSource, EpochBatches, RowBatch, TokenBatch } from './batch';
import { openRows, openTokens, requireVocab, type TokenBatchingOptions } from './open-data';
import {
  type ExamplePart,
  INDEX_COLUMNS,
  type PreparedData,
  type PreparedInstructions,
  TOKEN_ARRAYS,
  tokenBytes,
} from './prepared';
import { createRowBatches } from './row-batches';
import { withFile } from './stored-numbers';

/** The facts on which a config's batches depend, in addition to the config. */
export interface DataPlace {
  /** Number of data-parallel ranks. */
  readonly world: number;
  /** The user's own data; undefined if the config's data are built in. */
  readonly prepared?: PreparedData | undefined;
}

/** Makes the batches of a language model's config. Throws: CONFIG for data that do not fit the model. */
export function createBatches(
  config: Pick<TrainConfig, 'data' | 'batch' | 'accumulation' | 'seed' | 'model'>,
  { world, prepared }: DataPlace,
): BatchSource {
  const { data, batch, accumulation, seed } = config;
  const model = modelShape(config);
  if (isVideoModel(model)) {
    throw new ConfigError(`data: a dit trains on videos, not on tokens; use syntheticLatents`);
  }
  if (model.kind === 'own' || data === 'function') throw functionsMissing('data');
  const { seq, vocab } = model;
  if (data === 'synthetic') return syntheticBatches({ batch, seq, vocab });
  if (data === 'typescript') return textBatches(typescriptText(), seed, { batch, seq, vocab });
  if (prepared?.kind === 'tokens') return openTokens(prepared, { batch, seq, vocab, world, seed });
  if (prepared?.kind === 'instructions')
    return openInstructions(prepared, { batch, seq, vocab, world, seed, accumulation });
  if (prepared !== undefined) {
    throw new ConfigError(`data: ${prepared.name} has rows of numbers, but a ${model.kind} trains on text`);
  }
  throw new ShardlabError('INTERNAL', 'the data was not prepared');
}

/** Makes batches from files or arrays for a user's own model. Throws: CONFIG for a text without `data.seq`. */
export function createOwnBatches(
  { data, batch, seed }: Pick<TrainConfig, 'data' | 'batch' | 'seed'>,
  { world, prepared }: DataPlace,
): BatchesOf<TokenBatch | RowBatch> {
  if (prepared === undefined) {
    if (data === 'function') throw functionsMissing('data');
    throw new ConfigError(
      'data: a dry run or a plan reads no files; give a function that makes batches of the same shapes as your data, for example data: ({ tf }) => ({ x: tf.zeros([8, 7]) })',
    );
  }
  if (prepared.kind === 'rows') return openRows(prepared, { batch, world, seed });
  if (prepared.kind !== 'tokens')
    throw new ShardlabError('INTERNAL', `${prepared.kind} are for models of this library`);
  const seq = ownData(data)?.seq;
  if (seq === undefined) {
    throw new ConfigError(
      `data: ${prepared.name} is text, and a model of your own needs the number of tokens per row; write data: { path: './texts', seq: 128 }`,
    );
  }
  return openTokens(prepared, { batch, seq, vocab: Number.POSITIVE_INFINITY, world, seed });
}

/**
 * Makes tokens by a formula that any other engine can repeat: (s·7919 + r·104729 + i·31) mod vocab for element i of
 * microbatch s on rank r. Source: the torch benchmark that produced the recorded reference losses.
 */
export function syntheticBatches(shape: BatchShape): BatchSource {
  const { batch, seq, vocab } = shape;
  return {
    name: 'synthetic',
    batch(rank, index) {
      const start = index * 7919 + rank * 104729;
      const tokens = Int32Array.from({ length: batch * (seq + 1) }, (_, i) => (start + i * 31) % vocab);
      return { batch, seq, tokens };
    },
  };
}

/** The size of the byte vocabulary. */
const BYTE_VOCAB = 256;

/**
 * Makes rows that begin at random positions of a text; (seed, rank, index) determine the positions. A token is a byte of UTF-8.
 * Throws: CONFIG for a vocabulary below 256 and for a text that is too short.
 */
export function textBatches(text: string, seed: number, { batch, seq, vocab }: BatchShape): BatchSource {
  if (vocab < BYTE_VOCAB) {
    throw new ConfigError(`bytes need a vocabulary of at least ${BYTE_VOCAB}, got ${vocab}`);
  }
  const corpus = new TextEncoder().encode(text);
  const numStarts = corpus.length - seq;
  if (numStarts < 1) {
    throw new ConfigError(
      `the text has ${corpus.length} tokens; rows of ${seq + 1} need more text or a smaller seq`,
    );
  }
  return {
    name: 'typescript',
    batch(rank, index) {
      const random = seeded(seed, 'data', rank, index);
      const tokens = new Int32Array(batch * (seq + 1));
      for (let row = 0; row < batch; row++) {
        const start = random.integer(numStarts);
        tokens.set(corpus.subarray(start, start + seq + 1), row * (seq + 1));
      }
      return { batch, seq, tokens };
    },
  };
}

/** Returns the declaration files of the installed TypeScript package, joined in order of their names: about 3.7 MB of text. */
export function typescriptText(): string {
  const folder = dirname(require.resolve('typescript'));
  const names = readdirSync(folder)
    .filter((name) => /^lib\..*\.d\.ts$/.test(name))
    .sort();
  if (names.length === 0) {
    throw new ShardlabError('IO', `no lib.*.d.ts in ${folder}; install the typescript package again`);
  }
  return names.map((name) => readFileSync(join(folder, name), 'utf8')).join('\n');
}

/** Options that say how instructions become batches. */
export interface InstructionBatchingOptions extends TokenBatchingOptions {
  /** Microbatches per step. */
  readonly accumulation: number;
}

/**
 * Opens prepared instructions as batches of tokens with labels. The loss of a step is the mean over the answers' tokens of all its
 * ranks and microbatches, so it does not depend on how examples are shared or packed. For this, each batch has a factor: the
 * batch's mean over all positions, times the factor, is the batch's part of the step's mean. Source: transformers' Trainer,
 * num_items_in_batch and average_tokens_across_devices. A batch of pairs has two rows per pair: all chosen examples, then all rejected.
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
  // The loss of pairs is a mean over pairs, and all batches of a step have equally many.
  if (data.isPaired) return source;
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
    read(numbers: readonly number[]): TokenBatch {
      const examples = numbers.map((row) => rows[row] ?? []);
      return readRows(data, part, data.isPaired ? inPairs(examples) : examples);
    },
  };
}

/** Returns the rows of a batch of pairs: the chosen examples, then the rejected ones in the same order. */
function inPairs(pairs: readonly (readonly RowExample[])[]): readonly (readonly RowExample[])[] {
  return [0, 1].flatMap((answer) => pairs.map((pair) => pair.slice(answer, answer + 1)));
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
