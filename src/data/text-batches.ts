import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { ConfigError, ShardlabError } from '../core/errors';
import { seeded } from '../core/random';
import type { BatchShape, BatchSource } from './batch';
import type { Tokenizer } from './byte-tokenizer';

/** The text of the batches, and their shape. */
export interface TextBatchesOptions extends BatchShape {
  readonly name: string;
  readonly text: string;
  readonly tokenizer: Tokenizer;
  readonly seed: number;
}

/**
 * Rows that begin at random positions of a text, drawn by (seed, rank, index). Throws: CONFIG when the text is too
 * short.
 */
export function textBatches(options: TextBatchesOptions): BatchSource {
  const { name, batch, seq, seed } = options;
  const corpus = options.tokenizer.encode(options.text);
  const places = corpus.length - seq;
  if (places < 1) {
    throw new ConfigError(
      `the text has ${corpus.length} tokens; rows of ${seq + 1} need more text or a smaller seq`,
    );
  }
  return {
    name,
    batch(rank, index) {
      const random = seeded(seed, 'data', rank, index);
      const tokens = new Int32Array(batch * (seq + 1));
      for (let row = 0; row < batch; row++) {
        const start = random.integer(places);
        tokens.set(corpus.subarray(start, start + seq + 1), row * (seq + 1));
      }
      return { batch, seq, tokens };
    },
  };
}

/** The declaration files of the installed TypeScript package, one after another in order of name: about 3.7 MB of text. */
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
