import { z } from 'zod';
import { wordsOfIssues } from '../../../config';
import { endOfString, shown } from '../../../core';
import { fileError } from './file-system';
import { isStoredDType, type StoredDType, storedBytes } from './stored-dtypes';

/** The type, shape and position of one tensor in a safetensors file. */
export interface TensorEntry {
  readonly dtype: StoredDType;
  readonly shape: readonly number[];
  /** Position of the tensor's first byte, counted from the beginning of the data; `to` is the position after its last byte. */
  readonly from: number;
  readonly to: number;
}

/** The header of a safetensors file. */
export interface SafetensorsHeader {
  readonly tensors: ReadonlyMap<string, TensorEntry>;
  /** A text that says why a tensor of an unsupported type cannot be read, by the tensor's name. */
  readonly unread: ReadonlyMap<string, string>;
  readonly metadata: Readonly<Record<string, string>>;
  /** Position of the data's first byte in the file. */
  readonly dataStart: number;
}

/** The size of the largest accepted header. Source: safetensors' own limit, MAX_HEADER_SIZE. */
const MAX_HEADER_BYTES = 100_000_000;
/** The data begins at a multiple of this number of bytes. Source: safetensors' own writer. */
const ALIGNMENT = 8;
/** Number of bytes at the beginning of a file that store the header's length. */
export const LENGTH_BYTES = 8;

const entrySchema = z.strictObject({
  dtype: z.string(),
  shape: z.array(z.int().min(0)),
  data_offsets: z.tuple([z.int().min(0), z.int().min(0)]),
});
const metadataSchema = z.record(z.string(), z.string());

/** Returns the number of elements of a tensor with this shape. */
export function numElements(shape: readonly number[]): number {
  return shape.reduce((product, extent) => product * extent, 1);
}

/** Returns a header and its bytes. The header gives the tensors positions in the order of the map. */
export function encodeHeader(
  tensors: ReadonlyMap<string, { readonly dtype: StoredDType; readonly shape: readonly number[] }>,
  metadata: Readonly<Record<string, string>>,
): { readonly bytes: Buffer; readonly header: SafetensorsHeader; readonly fileBytes: number } {
  let end = 0;
  const entries = new Map<string, TensorEntry>();
  for (const [name, { dtype, shape }] of tensors) {
    const from = end;
    end += storedBytes(dtype) * numElements(shape);
    entries.set(name, { dtype, shape, from, to: end });
  }
  const described = [...entries].map(([name, { dtype, shape, from, to }]) => {
    return [name, { dtype, shape, data_offsets: [from, to] }] as const;
  });
  const json = Buffer.from(JSON.stringify({ __metadata__: metadata, ...Object.fromEntries(described) }));
  const dataStart = Math.ceil((LENGTH_BYTES + json.length) / ALIGNMENT) * ALIGNMENT;
  const bytes = Buffer.alloc(dataStart, ' ');
  bytes.writeBigUInt64LE(BigInt(dataStart - LENGTH_BYTES));
  json.copy(bytes, LENGTH_BYTES);
  return {
    bytes,
    header: { tensors: entries, unread: new Map(), metadata, dataStart },
    fileBytes: dataStart + end,
  };
}

/** Returns a header's size in bytes, from the file's first eight bytes. Throws: IO if the file is too short for the header. */
export function headerBytes(first: Buffer, fileBytes: number, file: string): number {
  if (first.length < LENGTH_BYTES) {
    fail(file, `is ${fileBytes} bytes long, too short for a safetensors file; copy it again`);
  }
  const size = Number(first.readBigUInt64LE(0));
  if (size > MAX_HEADER_BYTES || LENGTH_BYTES + size > fileBytes) {
    fail(
      file,
      `says that its header has ${size} bytes, but the file has ${fileBytes}; it is not a whole safetensors file: copy it again`,
    );
  }
  return size;
}

/**
 * Parses a header's JSON. Tensors must follow each other without gaps or overlaps, up to the end of the file.
 * Source: https://huggingface.co/docs/safetensors (format). Throws: IO, with file, tensor and offset.
 */
export function parseHeader(text: string, fileBytes: number, file: string): SafetensorsHeader {
  const dataStart = LENGTH_BYTES + Buffer.byteLength(text);
  const dataBytes = fileBytes - dataStart;
  const { entries, metadata } = entriesOf(text, file);
  let end = 0;
  const byOffset = [...entries].sort(([, a], [, b]) => a.from - b.from || a.to - b.to);
  for (const [name, entry] of byOffset) {
    if (entry.from !== end) {
      fail(
        file,
        `has a gap or an overlap: the data of ${name} begins at byte ${entry.from}, not at ${end}; copy it again`,
        name,
        entry.from,
      );
    }
    checkExtent(name, entry, dataBytes, file);
    end = entry.to;
  }
  if (end !== dataBytes) {
    fail(
      file,
      `is ${fileBytes} bytes long, but its header says ${dataStart + end}; it was truncated or extended: copy it again`,
    );
  }
  const tensors = new Map<string, TensorEntry>();
  const unread = new Map<string, string>();
  for (const [name, { dtype, ...rest }] of byOffset) {
    if (isStoredDType(dtype)) tensors.set(name, { dtype, ...rest });
    else
      unread.set(name, `is ${dtype} in ${file}; F32, I32, I64, BF16 and F16 can be read: convert it to F32`);
  }
  return { tensors, unread, metadata, dataStart };
}

function checkExtent(name: string, { dtype, shape, from, to }: AnyEntry, most: number, file: string): void {
  // An element of an unknown type may have any size.
  const itemBytes = isStoredDType(dtype) ? storedBytes(dtype) : OTHER_BYTES[dtype];
  const needed = itemBytes === undefined ? to - from : itemBytes * numElements(shape);
  if (to - from === needed && needed >= 0 && to <= most) return;
  fail(
    file,
    `is damaged: ${name} [${shape.join(', ')}] needs ${needed} bytes, but has offsets ${from} to ${to} in ${most} bytes of data`,
    name,
    from,
  );
}

/** A TensorEntry whose dtype may be unsupported. */
type AnyEntry = Omit<TensorEntry, 'dtype'> & { readonly dtype: string };

/** Bytes per element of unsupported types. Source: safetensors' Dtype. */
const OTHER_BYTES: Readonly<Record<string, number>> = {
  F64: 8,
  I64: 8,
  U64: 8,
  U32: 4,
  I16: 2,
  U16: 2,
  I8: 1,
  U8: 1,
  BOOL: 1,
  F8_E4M3: 1,
  F8_E5M2: 1,
};

function entriesOf(
  text: string,
  file: string,
): Pick<SafetensorsHeader, 'metadata'> & { readonly entries: ReadonlyMap<string, AnyEntry> } {
  const tally = tallyOf(text);
  if (tally.levels > MOST_LEVELS)
    return fail(
      file,
      `has a header with ${tally.levels} levels of brackets, but headers have ${MOST_LEVELS}; copy it again`,
    );
  if (tally.numValues > MOST_VALUES)
    return fail(
      file,
      `has a header with more than ${MOST_VALUES} values, more than any model has; copy it again`,
    );
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch (cause) {
    return fail(file, `has a header that is not JSON (${String(cause)}); copy it again`);
  }
  if (typeof json !== 'object' || json === null) return fail(file, 'has a header that is not an object');
  // JSON.parse takes the last of several values with the same name.
  if (Object.keys(json).length !== tally.numNames)
    return fail(file, 'has a header that describes a tensor twice; save it again');
  const entries = new Map<string, AnyEntry>();
  let metadata: Readonly<Record<string, string>> = {};
  for (const [name, value] of Object.entries(json)) {
    if (name === '__metadata__') {
      metadata = metadataSchema.safeParse(value).data ?? {};
      continue;
    }
    const entry = entrySchema.safeParse(value);
    if (!entry.success) {
      const reason = wordsOfIssues(entry.error.issues.slice(0, 1));
      return fail(
        file,
        `describes ${shown(name)} wrongly (${reason}): its header is damaged; copy it again`,
        name,
      );
    }
    const { dtype, shape, data_offsets: offsets } = entry.data;
    entries.set(name, { dtype, shape, from: offsets[0], to: offsets[1] });
  }
  return { entries, metadata };
}

/** The levels of a header's brackets: the tensors, one tensor, and its shape. */
const MOST_LEVELS = 3;
/** A tensor has about ten values (dtype, extents and offsets), and the largest models have 100,000 tensors. */
const MOST_VALUES = 10_000_000;

/** Counts a text's levels of brackets, its values, and the names in the outermost object, before JSON.parse makes something of each. */
function tallyOf(text: string): {
  readonly levels: number;
  readonly numValues: number;
  readonly numNames: number;
} {
  let [level, levels, numValues, numNames] = [0, 0, 0, 0];
  for (let i = 0; i < text.length && levels <= MOST_LEVELS; i++) {
    const letter = text[i];
    if (letter === '"') i = endOfString(text, i);
    else if (letter === '{' || letter === '[') levels = Math.max(levels, ++level);
    else if (letter === '}' || letter === ']') level--;
    else if (letter === ':' && level === 1) numNames++;
    if (letter === ',' || letter === '[') numValues++;
  }
  return { levels, numValues, numNames };
}

function fail(file: string, problem: string, tensor?: string, offset?: number): never {
  throw fileError(`${file} ${problem}`, { file, tensor, offset });
}
