import fs from 'node:fs';
import { basename, join } from 'node:path';
import { type Bytes, readRegularFile, type ShardlabError } from '../../../core';
import { CHECKSUM_FILE } from '../format/checkpoint-mark';
import { type ChecksumRun, type Checksums, parseChecksums } from '../format/checksums';
import { blockChecksum, checksumOf } from '../format/crc32';
import { fileError } from '../format/file-system';
import { decodeValues, firstLong, type StoredDType, storedBytes } from '../format/stored-dtypes';
import { overlapOf, type Range } from '../state/ranges';
import type { Catalog, StoredArray, StoredPiece } from './catalog';

/** Number of elements per read if there are no checksums. */
const UNCHECKED_ELEMENTS = 2 ** 14;

/** Statistics of the reads so far. */
export interface ReadTally {
  readonly bytesRead: Bytes;
  /** Maximum number of bytes in memory at once. */
  readonly peakBytes: Bytes;
}

/** Reads ranges of arrays piece by piece. If the checkpoint has checksums, the reader verifies them. */
export class StretchReader {
  readonly #checksums: Checksums | null;
  readonly #tally = { bytesRead: 0, peakBytes: 0 };

  constructor(checksums: Checksums | null) {
    this.#checksums = checksums;
  }

  get tally(): ReadTally {
    return this.#tally;
  }

  /** Verifies the headers of a catalog's files. Throws: IO, with the file's name. */
  checkHeaders({ files }: Catalog): void {
    for (const file of files) {
      const expected = this.#checksums?.files[basename(file.file)]?.header;
      if (expected === undefined || checksumOf(file.headerBytes) === expected) continue;
      throw fileError(
        `${file.file}: the header (bytes 0 to ${file.headerBytes.length}) was damaged: its CRC-32 is ` +
          `${checksumOf(file.headerBytes)}, but was ${expected} when the file was saved; ${RESTORE}`,
        { file: file.file, offset: 0 },
      );
    }
  }

  /**
   * Reads a range in blocks, and calls `take` with each block and the index of the block's first element. Throws: IO, with
   * file, tensor and offset.
   */
  read(
    { dtype, pieces }: StoredArray,
    range: Range,
    take: (values: Float32Array | Int32Array, start: number) => void,
  ): void {
    for (const piece of pieces) {
      const common = overlapOf(range, piece);
      if (common === null) continue;
      const wanted = { start: common.start - piece.start, length: common.length };
      let numTaken = 0;
      for (const block of this.#blocksOf(piece, wanted)) {
        const bytes = this.#bytesOf(piece, block, dtype);
        const part = overlapOf(block, wanted);
        if (part === null) continue;
        const values = decodeValues(bytes, dtype);
        const from = part.start - block.start;
        take(values.subarray(from, from + part.length), piece.start + part.start);
        numTaken += part.length;
      }
      if (numTaken !== wanted.length) throw uncovered(piece, wanted, numTaken);
    }
  }

  *#blocksOf(piece: StoredPiece, wanted: Range): Generator<Block> {
    const { file, tensor } = piece;
    const own = this.#checksums?.files[basename(file.file)];
    if (this.#checksums === null || own === undefined) {
      const end = wanted.start + wanted.length;
      for (let start = wanted.start; start < end; start += UNCHECKED_ELEMENTS) {
        yield { start, length: Math.min(UNCHECKED_ELEMENTS, end - start), expected: null };
      }
      return;
    }
    const size = this.#checksums.block_elements;
    for (const run of own.tensors[tensor] ?? []) yield* blocksOfRun(run, size, wanted);
  }

  #bytesOf({ file, tensor }: StoredPiece, { start, length, expected }: Block, dtype: StoredDType): Buffer {
    const bytes = file.read(tensor, start, length);
    this.#tally.bytesRead += bytes.length;
    this.#tally.peakBytes = Math.max(this.#tally.peakBytes, bytes.length);
    if (dtype === 'I64') requireShort(file.file, tensor, bytes);
    if (expected === null || checksumOf(bytes) === expected) return bytes;
    const offset = file.position(tensor, start);
    throw fileError(
      `${file.file}: tensor ${tensor} was damaged between bytes ${offset} and ${offset + storedBytes(dtype) * length} of the file ` +
        `(elements ${start} to ${start + length}): their CRC-32 is ${checksumOf(bytes)}, but was ${expected} when the file was saved; ${RESTORE}`,
      { file: file.file, tensor, offset },
    );
  }
}

/** The error for checksums that leave out elements of a tensor, or have some twice: without an error, the elements would not be loaded. */
function uncovered({ file, tensor }: StoredPiece, { start, length }: Range, numTaken: number): ShardlabError {
  return fileError(
    `${CHECKSUM_FILE} has checksums of ${numTaken} of the elements ${start} to ${start + length} of ${tensor} in ${file.file}; ` +
      'copy it again, or delete it to load without checksums',
    { file: file.file, tensor },
  );
}

/** Throws: IO for a value that 32 bits do not hold. */
function requireShort(file: string, tensor: string, bytes: Buffer): void {
  const long = firstLong(bytes);
  if (long === undefined) return;
  throw fileError(
    `${file}: ${tensor} is I64 and has the value ${long}, but only values of 32 bits can be read; convert it`,
    { file, tensor },
  );
}

const RESTORE = 'copy the file again, or load an earlier checkpoint';

interface Block extends Range {
  readonly expected: string | null;
}

function* blocksOfRun(run: ChecksumRun, size: number, wanted: Range): Generator<Block> {
  const common = overlapOf(wanted, { start: run.at, length: run.length });
  if (common === null) return;
  const first = Math.floor((common.start - run.at) / size);
  const last = Math.ceil((common.start + common.length - run.at) / size);
  for (let n = first; n < last; n++) {
    const length = Math.min(size, run.length - n * size);
    yield { start: run.at + n * size, length, expected: blockChecksum(run, n) };
  }
}

/** Returns the checksums of a folder; null if the folder has no checksums, as in Hugging Face's format. */
export function checksumsOf(folder: string): Checksums | null {
  const file = join(folder, CHECKSUM_FILE);
  return fs.existsSync(file) ? parseChecksums(readRegularFile(file), file) : null;
}
