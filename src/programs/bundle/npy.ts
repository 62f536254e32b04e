import fs from 'node:fs';
import { dirname } from 'node:path';
import { makeFolder } from '../../core';
import { writeAll } from '../../training';

/** Returns the header of a NumPy array in C order. Source: numpy.lib.format, version 1.0. */
export function npyHeader(kind: string, shape: readonly number[]): Buffer {
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

/** Writes a header, then parts of a file, one after the other. Throws: errors of the file system. */
export function writeParts(path: string, header: Buffer, parts: Iterable<ArrayBufferView>): void {
  makeFolder(dirname(path));
  const file = fs.openSync(path, 'w');
  try {
    let place = header.length;
    writeAll(fs, file, header, 0);
    for (const { buffer, byteOffset, byteLength } of parts) {
      writeAll(fs, file, new Uint8Array(buffer, byteOffset, byteLength), place);
      place += byteLength;
    }
  } finally {
    fs.closeSync(file);
  }
}
