import { z } from 'zod';
import { parseJson } from '../../../core';
import { fileError } from './file-system';

const runSchema = z.strictObject({
  /** The index, in the stored tensor, of the range's first element. A range is written by one rank. */
  at: z.int().min(0),
  length: z.int().min(0),
  /**
   * The checksums of the range's blocks, joined without separators: eight hexadecimal digits per `block_elements` elements.
   */
  crc32: z.string(),
});
const fileSchema = z.strictObject({
  bytes: z.int().min(0),
  /** Checksum of the bytes before the data. */
  header: z.string(),
  tensors: z.record(z.string(), z.array(runSchema)),
});
const checksumsSchema = z.strictObject({
  algorithm: z.literal('crc32'),
  block_elements: z.int().min(1),
  files: z.record(z.string(), fileSchema),
});

/** Checksums of a range of a stored tensor. */
export type ChecksumRun = z.output<typeof runSchema>;
/** Checksums of one file. */
export type FileChecksums = z.output<typeof fileSchema>;
/** The content of checksums.json. */
export type Checksums = z.output<typeof checksumsSchema>;

/** Parses checksums.json. Throws: IO, with the file's name. */
export function parseChecksums(text: string, file: string): Checksums {
  try {
    return checksumsSchema.parse(parseJson(text));
  } catch (cause) {
    throw fileError(
      `${file} does not contain the checksums of a save; copy it again, or delete it to load without checksums`,
      { file },
      cause,
    );
  }
}
