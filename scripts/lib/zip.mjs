import { crc32, deflateRawSync } from 'node:zlib';

const VERSION = 20;
/** 1 January 1980, the first date of the format. */
const DATE = 0x21;
const DEFLATED = 8;
/** A file's mode of Unix, and the bit of file names in UTF-8. */
const UNIX = 3 << 8;
const UTF8 = 1 << 11;

/**
 * Returns a zip archive of files ({ path, data, mode }), in their order and all of the same date: equal files give equal bytes.
 * Source: PKWARE's APPNOTE 6.3.3.
 */
export function zipOf(files) {
  const parts = [];
  const directory = [];
  let offset = 0;
  for (const { path, data, mode = 0o644 } of files) {
    const name = Buffer.from(path);
    const packed = deflateRawSync(data, { level: 9 });
    const common = Buffer.alloc(26);
    common.writeUInt16LE(VERSION, 0);
    common.writeUInt16LE(UTF8, 2);
    common.writeUInt16LE(DEFLATED, 4);
    common.writeUInt16LE(0, 6);
    common.writeUInt16LE(DATE, 8);
    common.writeUInt32LE(crc32(data), 10);
    common.writeUInt32LE(packed.length, 14);
    common.writeUInt32LE(data.length, 18);
    common.writeUInt16LE(name.length, 22);
    const entry = Buffer.alloc(14);
    entry.writeUInt32LE(((0o100000 | mode) << 16) >>> 0, 6);
    entry.writeUInt32LE(offset, 10);
    directory.push(signature('PK\x01\x02'), u16(VERSION | UNIX), common, entry, name);
    const header = [signature('PK\x03\x04'), common, name, packed];
    parts.push(...header);
    offset += header.reduce((sum, part) => sum + part.length, 0);
  }
  const size = directory.reduce((sum, part) => sum + part.length, 0);
  const end = Buffer.alloc(18);
  end.writeUInt16LE(files.length, 4);
  end.writeUInt16LE(files.length, 6);
  end.writeUInt32LE(size, 8);
  end.writeUInt32LE(offset, 12);
  return Buffer.concat([...parts, ...directory, signature('PK\x05\x06'), end]);
}

const signature = (text) => Buffer.from(text, 'latin1');

function u16(value) {
  const bytes = Buffer.alloc(2);
  bytes.writeUInt16LE(value);
  return bytes;
}
