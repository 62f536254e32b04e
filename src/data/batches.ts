import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { modelShape } from '../config/settings/model';
import type { TrainConfig } from '../config/train-config';
import { ConfigError, ShardlabError } from '../core/errors';
import { seeded } from '../core/random';
import type { BatchShape, BatchSource } from './batch';
import { openTokens } from './open-data';
import type { PreparedData } from './prepared';

/** What a config's batches depend on besides the config. */
export interface DataPlace {
  /** Number of data-parallel ranks. */
  readonly world: number;
  /** The user's own data; undefined: the config's data are built in. */
  readonly prepared?: PreparedData | undefined;
}

/** Makes the batches of a language model's config. Throws: CONFIG for data that do not fit to the model. */
export function createBatches(
  config: Pick<TrainConfig, 'data' | 'batch' | 'seed' | 'model'>,
  { world, prepared }: DataPlace,
): BatchSource {
  const { data, batch, seed } = config;
  const model = modelShape(config);
  if (model.kind === 'dit') {
    throw new ConfigError(`data: a dit trains on videos, not on tokens; use syntheticLatents`);
  }
  const { seq, vocab } = model;
  if (data === 'synthetic') return syntheticBatches({ batch, seq, vocab });
  if (data === 'typescript') return textBatches(typescriptText(), seed, { batch, seq, vocab });
  if (prepared?.kind === 'tokens') return openTokens(prepared, { batch, seq, vocab, world, seed });
  if (prepared !== undefined) {
    throw new ConfigError(`data: ${prepared.name} has rows of numbers, but a ${model.kind} trains on text`);
  }
  throw new ShardlabError('INTERNAL', 'the data was not prepared');
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
 * Makes rows that begin at random positions of a text, which depend on (seed, rank, index); a token is a byte of UTF-8. Throws:
 * CONFIG for a vocabulary below 256 and for a text that is too short.
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
