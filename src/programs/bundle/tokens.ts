import fs from 'node:fs';
import { join } from 'node:path';
import { makeFolder } from '../../core';
import { type BatchSource, writeAll } from '../../training';

/** The batches that are stored: `numMicrobatches` microbatches of every data-parallel rank, from index `first` on. */
export interface StoredBatches {
  readonly ranks: number;
  readonly first: number;
  readonly numMicrobatches: number;
  readonly batch: number;
  readonly seq: number;
  readonly vocab: number;
}

/** Returns the bytes of a token id: two for a vocabulary of at most 65,500 tokens, as in Megatron-LM, else four. */
export function tokenBytes(vocab: number): 2 | 4 {
  return vocab <= 65_500 ? 2 : 4;
}

/** Returns the bytes of all ranks' batches of one step. */
export function stepBytes(
  { ranks, batch, seq, vocab }: Omit<StoredBatches, 'first' | 'numMicrobatches'>,
  accumulation: number,
): number {
  return ranks * accumulation * batch * (seq + 1) * tokenBytes(vocab);
}

/** Writes data/tokens.npy: [rank, microbatch, row, seq + 1]. Returns the path within the bundle. Throws: errors of the file system. */
export function writeBatches(source: BatchSource, stored: StoredBatches, folder: string): string[] {
  const { ranks, numMicrobatches, batch, seq, vocab } = stored;
  const kind = tokenBytes(vocab) === 2 ? '<u2' : '<i4';
  const header = npyHeader(kind, [ranks, numMicrobatches, batch, seq + 1]);
  writeTokens(source, stored, join(folder, 'data', 'tokens.npy'), header);
  return ['data/tokens.npy'];
}

/** Returns the header of a NumPy array in C order. Source: numpy.lib.format, version 1.0. */
function npyHeader(kind: string, shape: readonly number[]): Buffer {
  const text = `{'descr': '${kind}', 'fortran_order': False, 'shape': (${shape.join(', ')}), }`;
  const prefix = 10;
  const padded = Math.ceil((prefix + text.length + 1) / 64) * 64 - prefix;
  const header = Buffer.alloc(prefix + padded, ' ');
  header.write('\x93NUMPY\x01\x00', 0, 'latin1');
  header.writeUInt16LE(padded, 8);
  header.write(text, prefix, 'latin1');
  header.write('\n', prefix + padded - 1);
  return header;
}

/**
 * Writes data/tokens.bin and data/tokens.idx, one document per row. Source of the format: Megatron-LM's IndexedDataset
 * (megatron/core/datasets/indexed_dataset.py), version 1.
 */
export function writeIndexed(source: BatchSource, stored: StoredBatches, folder: string): string[] {
  const { ranks, numMicrobatches, batch, seq, vocab } = stored;
  const rows = ranks * numMicrobatches * batch;
  const bytes = tokenBytes(vocab);
  writeTokens(source, stored, join(folder, 'data', 'tokens.bin'), Buffer.alloc(0));
  const head = Buffer.alloc(9 + 8 + 1 + 8 + 8);
  head.write('MMIDIDX\x00\x00', 0, 'latin1');
  head.writeBigUInt64LE(1n, 9);
  head.writeUInt8(bytes === 2 ? UINT16 : INT32, 17);
  head.writeBigUInt64LE(BigInt(rows), 18);
  head.writeBigUInt64LE(BigInt(rows + 1), 26);
  const lengths = new Int32Array(rows).fill(seq + 1);
  const pointers = BigInt64Array.from({ length: rows }, (_, row) => BigInt(row * (seq + 1) * bytes));
  const documents = BigInt64Array.from({ length: rows + 1 }, (_, row) => BigInt(row));
  const parts = [head, ...[lengths, pointers, documents].map(({ buffer }) => Buffer.from(buffer))];
  fs.writeFileSync(join(folder, 'data', 'tokens.idx'), Buffer.concat(parts));
  return ['data/tokens.bin', 'data/tokens.idx'];
}

/** Megatron-LM's codes of the two types of token ids. */
const [INT32, UINT16] = [4, 8];

/** Writes a header, then each rank's tokens, one microbatch after the other. */
function writeTokens(source: BatchSource, stored: StoredBatches, path: string, header: Buffer): void {
  const { ranks, first, numMicrobatches, vocab } = stored;
  makeFolder(join(path, '..'));
  const file = fs.openSync(path, 'w');
  try {
    let place = header.length;
    writeAll(fs, file, header, 0);
    for (let rank = 0; rank < ranks; rank++) {
      for (let index = first; index < first + numMicrobatches; index++) {
        const { tokens } = source.batch(rank, index);
        const values = tokenBytes(vocab) === 2 ? Uint16Array.from(tokens) : tokens;
        const part = new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
        writeAll(fs, file, part, place);
        place += part.length;
      }
    }
  } finally {
    fs.closeSync(file);
  }
}
