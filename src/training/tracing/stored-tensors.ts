import fs from 'node:fs';
import { dirname } from 'node:path';
import { makeFolder } from '../../core';
import { writeAll } from '../checkpoint/format/file-system';
import { encodeHeader } from '../checkpoint/format/safetensors-header';
import { encodeValues } from '../checkpoint/format/stored-dtypes';

/** Values of a tensor that are stored as they are: floats as F32, integers and booleans (0 and 1) as I32. */
export interface StoredTensor {
  readonly shape: readonly number[];
  readonly values: Float32Array | Int32Array | Uint8Array;
}

/** Writes tensors by name into a safetensors file. Throws: errors of the file system. */
export function writeTensors(path: string, tensors: ReadonlyMap<string, StoredTensor>): void {
  makeFolder(dirname(path));
  const entries = [...tensors].map(([name, { shape, values }]) => {
    const isFloat = values instanceof Float32Array;
    const dtype = isFloat ? ('F32' as const) : ('I32' as const);
    const bytes = encodeValues(isFloat ? values : Int32Array.from(values), dtype);
    return { name, shape, dtype, bytes };
  });
  const { bytes: head } = encodeHeader(new Map(entries.map(({ name, ...entry }) => [name, entry])), {
    format: 'pt',
  });
  const file = fs.openSync(path, 'w');
  try {
    let at = head.length;
    writeAll(fs, file, head, 0);
    for (const { bytes } of entries) {
      writeAll(fs, file, bytes, at);
      at += bytes.length;
    }
  } finally {
    fs.closeSync(file);
  }
}
