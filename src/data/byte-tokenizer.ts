import { ConfigError } from '../core/errors';

/** Size of the byte vocabulary. */
const BYTE_VOCAB = 256;

/** Turns text into tokens and back. */
export interface Tokenizer {
  /** Token ids are in [0, vocab). */
  readonly vocab: number;
  encode(text: string): Int32Array;
  decode(tokens: Iterable<number>): string;
}

/** One token per byte of UTF-8; ids from 256 on are unused. Throws: CONFIG when the vocabulary is below 256. */
export function byteTokenizer(vocab: number): Tokenizer {
  if (vocab < BYTE_VOCAB) {
    throw new ConfigError(`bytes need a vocabulary of at least ${BYTE_VOCAB}, got ${vocab}`);
  }
  return {
    vocab,
    encode: (text) => Int32Array.from(new TextEncoder().encode(text)),
    decode: (tokens) =>
      new TextDecoder().decode(Uint8Array.from(tokens, (id) => (id < BYTE_VOCAB ? id : 0x3f))),
  };
}
