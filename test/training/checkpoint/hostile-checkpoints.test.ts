import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { CHECKSUM_FILE } from '../../../src/training/checkpoint/format/checkpoint-mark';
import { parseCheckpointState } from '../../../src/training/checkpoint/format/checkpoint-state';
import { parseIndex } from '../../../src/training/checkpoint/format/index-file';
import { SafetensorsFile } from '../../../src/training/checkpoint/format/safetensors-file';
import { openCatalog } from '../../../src/training/checkpoint/load/catalog';
import { checksumsOf, StretchReader } from '../../../src/training/checkpoint/load/stretch-reader';

const root = mkdtempSync(join(tmpdir(), 'hostile-checkpoints-'));
after(() => rmSync(root, { recursive: true, force: true }));

function stored(name: string, header: string, data: Uint8Array = Buffer.alloc(0)): string {
  const folder = join(root, name);
  mkdirSync(folder, { recursive: true });
  const size = Buffer.alloc(8);
  size.writeBigUInt64LE(BigInt(Buffer.byteLength(header)));
  writeFileSync(join(folder, 'model.safetensors'), Buffer.concat([size, Buffer.from(header), data]));
  return folder;
}

const entry = (dtype: string, bytes: number, length = 1): string =>
  `{"dtype":"${dtype}","shape":[${length}],"data_offsets":[0,${bytes}]}`;

/** Headers that would fill the memory, or of which a part would be left out in silence. */
const HEADERS: Readonly<Record<string, readonly [string, RegExp]>> = {
  'brackets without end': ['['.repeat(2e6), /levels of brackets/],
  'deep metadata': [`{"__metadata__":${'{"a":'.repeat(1e5)}1${'}'.repeat(1e5)}}`, /levels of brackets/],
  'a tensor of millions of extents': [
    `{"a":{"shape":[${'1,'.repeat(1.1e7)}1]}}`,
    /more than 10000000 values/,
  ],
  'a tensor twice': [`{"a":${entry('F32', 4)},"a":${entry('I32', 4)}}`, /a tensor twice/],
  'a tensor twice, once escaped': [`{"a":${entry('F32', 4)},"\\u0061":${entry('I32', 4)}}`, /a tensor twice/],
  'a name of a million characters': [
    `{"${'a'.repeat(1e6)}":${entry('F32', 4, 2)}}`,
    /a… \(\d+ characters\) …/,
  ],
};

for (const [name, [header, message]] of Object.entries(HEADERS)) {
  test(`a safetensors header with ${name} is a short error`, () => {
    const folder = stored(name, header, Buffer.alloc(4));
    assert.throws(
      () => new SafetensorsFile(join(folder, 'model.safetensors')),
      (error: Error & { code?: string }) => {
        assert.equal(error.code, 'IO');
        assert.match(error.message, message);
        return error.message.length < 2100;
      },
    );
  });
}

test('a header may have punctuation within names and metadata', () => {
  const name = '[{:,"\\';
  const header = JSON.stringify({ __metadata__: { ':{[': '}],:' }, [name]: JSON.parse(entry('F32', 4)) });
  const file = new SafetensorsFile(join(stored('punctuation', header, Buffer.alloc(4)), 'model.safetensors'));
  assert.deepEqual([...file.header.tensors.keys()], [name]);
  file.close();
});

function read(folder: string): number[] {
  const catalog = openCatalog(folder, 'model');
  try {
    const values: number[] = [];
    const reader = new StretchReader(checksumsOf(folder));
    for (const array of catalog.arrays.values())
      reader.read(array, { start: 0, length: array.shape[0] ?? 0 }, (some) => values.push(...some));
    return values;
  } finally {
    catalog.close();
  }
}

test('a value of 64 bits that 32 bits do not hold is refused, and not cut', () => {
  const bytes = (...values: bigint[]): Buffer => Buffer.from(BigInt64Array.from(values).buffer);
  const header = `{"count":${entry('I64', 16, 2)}}`;
  assert.deepEqual(read(stored('short', header, bytes(-(2n ** 31n), 2n ** 31n - 1n))), [
    -(2 ** 31),
    2 ** 31 - 1,
  ]);
  for (const wrong of [2n ** 31n, -(2n ** 31n) - 1n, 2n ** 40n]) {
    const message = new RegExp(`count is I64 and has the value ${wrong}, but only values of 32 bits`);
    assert.throws(() => read(stored('long', header, bytes(1n, wrong))), { code: 'IO', message });
  }
});

test('checksums that leave out elements are refused, because these elements would not be loaded', () => {
  const folder = stored(
    'uncovered',
    `{"a":${entry('F32', 16, 4)}}`,
    Buffer.from(Float32Array.of(1, 2, 3, 4).buffer),
  );
  assert.deepEqual(read(folder), [1, 2, 3, 4]);
  const runs = [[], [{ at: 9, length: 4, crc32: '' }]];
  for (const a of runs) {
    const files = { 'model.safetensors': { bytes: 1, header: '', tensors: { a } } };
    writeFileSync(
      join(folder, CHECKSUM_FILE),
      JSON.stringify({ algorithm: 'crc32', block_elements: 4, files }),
    );
    assert.throws(() => read(folder), {
      code: 'IO',
      message: /checksums of 0 of the elements 0 to 4 of a in/,
    });
  }
});

test("the files beside a checkpoint's arrays are refused in a few words, whatever their size and depth", () => {
  const deep = `{"trainer":${'['.repeat(1e5)}${']'.repeat(1e5)}}`;
  const many = JSON.stringify({
    weight_map: Object.fromEntries(Array.from({ length: 5e4 }, (_, i) => [`w${i}`, i])),
  });
  for (const parse of [parseCheckpointState, parseIndex]) {
    for (const text of [deep, many])
      assert.throws(
        () => parse(text, 'x.json'),
        (error: Error & { code?: string }) => error.code === 'IO' && error.message.length < 2100,
      );
  }
});
