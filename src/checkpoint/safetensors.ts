import { readFileSync } from 'node:fs';
import { z } from 'zod';
import { ShardlabError } from '../core/errors';

/** One tensor of a safetensors file. */
export interface StoredTensor {
  readonly shape: readonly number[];
  readonly values: Float32Array | Int32Array;
}

/** Largest header that is read. Source: safetensors' own limit, MAX_HEADER_SIZE. */
const MAX_HEADER_BYTES = 100_000_000;

const entrySchema = z.strictObject({
  dtype: z.string(),
  shape: z.array(z.int().min(0)),
  data_offsets: z.tuple([z.int().min(0), z.int().min(0)]),
});
type Entry = z.output<typeof entrySchema>;

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

/**
 * All tensors of a safetensors file's bytes; F32 and I32. Tensors must lie one after another without gaps or overlaps.
 * Source: https://huggingface.co/docs/safetensors (format). Throws: IO.
 */
export function parseSafetensors(bytes: Uint8Array, file: string): Map<string, StoredTensor> {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const headerBytes = headerSize(buffer, file);
  const header = parseHeader(buffer.toString('utf8', 8, 8 + headerBytes), file);
  const start = 8 + headerBytes;
  const tensors = new Map<string, StoredTensor>();
  let end = 0;
  const byOffset = [...header].sort(([, a], [, b]) => a.data_offsets[0] - b.data_offsets[0]);
  for (const [name, entry] of byOffset) {
    if (entry.data_offsets[0] !== end) {
      fail(file, `${name} begins at ${entry.data_offsets[0]}, expected ${end}: a gap or an overlap`, name);
    }
    end = entry.data_offsets[1];
    tensors.set(name, { shape: entry.shape, values: valuesOf(buffer, start, name, entry, file) });
  }
  if (start + end !== buffer.length) {
    fail(
      file,
      `is ${buffer.length} bytes long, its header says ${start + end}; it was cut off or appended to`,
    );
  }
  return tensors;
}

function headerSize(buffer: Buffer, file: string): number {
  if (buffer.length < 8) fail(file, `is ${buffer.length} bytes long, too short for a safetensors file`);
  if (buffer.toString('latin1', 0, 8) === 'version ') {
    fail(file, 'is a Git-LFS pointer, not the file itself; run `git lfs pull`');
  }
  const size = Number(buffer.readBigUInt64LE(0));
  if (size > MAX_HEADER_BYTES || 8 + size > buffer.length) {
    fail(
      file,
      `says that its header has ${size} bytes, the file has ${buffer.length}; not a whole safetensors file`,
    );
  }
  return size;
}

function parseHeader(text: string, file: string): Map<string, Entry> {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch (cause) {
    return fail(file, `has a header that is not JSON: ${String(cause)}`);
  }
  if (typeof json !== 'object' || json === null) return fail(file, 'has a header that is not an object');
  const header = new Map<string, Entry>();
  for (const [name, value] of Object.entries(json)) {
    if (name === '__metadata__') continue;
    const entry = entrySchema.safeParse(value);
    if (!entry.success) return fail(file, `${name} is described wrongly: ${entry.error.message}`, name);
    header.set(name, entry.data);
  }
  return header;
}

function valuesOf(
  buffer: Buffer,
  start: number,
  name: string,
  entry: Entry,
  file: string,
): Float32Array | Int32Array {
  const [from, to] = entry.data_offsets;
  const count = entry.shape.reduce((product, extent) => product * extent, 1);
  if (entry.dtype !== 'F32' && entry.dtype !== 'I32') {
    fail(file, `${name} is ${entry.dtype}; F32 and I32 can be read`, name);
  }
  if (to - from !== 4 * count || start + to > buffer.length) {
    fail(
      file,
      `${name} [${entry.shape.join(', ')}] needs ${4 * count} bytes, offsets ${from} to ${to} of ${buffer.length - start}`,
      name,
    );
  }
  // A copy, since values begin at any byte and typed arrays at multiples of four.
  const values = new Uint8Array(4 * count);
  values.set(buffer.subarray(start + from, start + to));
  return entry.dtype === 'F32' ? new Float32Array(values.buffer) : new Int32Array(values.buffer);
}

function fail(file: string, what: string, tensor?: string): never {
  throw new ShardlabError('IO', `${file} ${what}`, { details: { file, tensor } });
}
