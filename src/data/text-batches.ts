import { ConfigError } from '../core/errors';
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
