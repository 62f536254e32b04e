import { readFileSync } from 'node:fs';
import { ShardlabError } from '../../src/core/errors';
import { MAGIC_BYTES, refuseOtherFormats } from '../../src/training/checkpoint/format/not-safetensors';
import {
  headerBytes,
  LENGTH_BYTES,
  parseHeader,
} from '../../src/training/checkpoint/format/safetensors-header';
import { decodeValues } from '../../src/training/checkpoint/format/stored-dtypes';

/** One tensor of a safetensors file. */
export interface StoredTensor {
  readonly shape: readonly number[];
  /** Values of 16-bit types come as float32. */
  readonly values: Float32Array | Int32Array;
}

/** All tensors of a safetensors file by name. Throws: IO naming the file, the tensor and the offset. */
export function readSafetensors(file: string): Map<string, StoredTensor> {
  let bytes: Buffer;
  try {
    bytes = readFileSync(file);
  } catch (cause) {
    throw new ShardlabError('IO', `cannot read ${file}: ${String(cause)}`, { cause, details: { file } });
  }
  return parseSafetensors(bytes, file);
}

/** All tensors of a safetensors file's bytes. Throws: IO naming the file, the tensor and the offset. */
export function parseSafetensors(bytes: Uint8Array, file: string): Map<string, StoredTensor> {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  refuseOtherFormats(file, buffer.subarray(0, MAGIC_BYTES));
  const end = LENGTH_BYTES + headerBytes(buffer.subarray(0, LENGTH_BYTES), buffer.length, file);
  const { tensors, dataStart } = parseHeader(buffer.toString('utf8', LENGTH_BYTES, end), buffer.length, file);
  return new Map(
    [...tensors].map(([name, { dtype, shape, from, to }]) => {
      const values = decodeValues(buffer.subarray(dataStart + from, dataStart + to), dtype);
      return [name, { shape, values }];
    }),
  );
}
