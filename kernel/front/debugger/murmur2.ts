const MULTIPLIER = 0x5bd1e995;
const SHIFT = 24;
const BYTES_OF_WORD = 4;

/** Hashes a text's UTF-8 bytes to 32 bits. Front ends name cells by this hash. Source: Austin Appleby, MurmurHash2 (public domain) */
export function murmur2(text: string, seed: number): number {
  const bytes = Buffer.from(text);
  const wordsEnd = bytes.length - (bytes.length % BYTES_OF_WORD);
  let hash = seed ^ bytes.length;
  for (let i = 0; i < wordsEnd; i += BYTES_OF_WORD) {
    const word = Math.imul(bytes.readInt32LE(i), MULTIPLIER);
    hash = Math.imul(hash, MULTIPLIER) ^ Math.imul(word ^ (word >>> SHIFT), MULTIPLIER);
  }
  if (wordsEnd < bytes.length) {
    hash ^= bytes.readUIntLE(wordsEnd, bytes.length - wordsEnd);
    hash = Math.imul(hash, MULTIPLIER);
  }
  hash = Math.imul(hash ^ (hash >>> 13), MULTIPLIER);
  return (hash ^ (hash >>> 15)) >>> 0;
}
