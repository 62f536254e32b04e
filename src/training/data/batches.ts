import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { functionsMissing, isVideoModel, modelShape, ownData, type TrainConfig } from '../../config';
import { ConfigError, ShardlabError, seeded } from '../../core';
import type { BatchesOf, BatchShape, BatchSource, RowBatch, TokenBatch } from './batch';
import { openRows, openTokens } from './open-data';
import { openInstructions } from './open-instructions';
import type { PreparedData } from './prepared';

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
  if (prepared.kind === 'instructions')
    throw new ShardlabError('INTERNAL', 'instructions are for models of this library');
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
