import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { conversionLine } from '../../../src/core/weight-files/torch-pickle';
import { SafetensorsFile } from '../../../src/training/checkpoint/format/safetensors-file';
import { encodeHeader } from '../../../src/training/checkpoint/format/safetensors-header';
import { decodeValues, encodeValues } from '../../../src/training/checkpoint/format/stored-dtypes';
import { testData } from '../../support/paths';
import { parseSafetensors, readSafetensors } from '../../support/safetensors';

const folder = mkdtempSync(join(tmpdir(), 'shardlab-safetensors-'));
after(() => rmSync(folder, { recursive: true, force: true }));

const file = (header: unknown, payload = Buffer.alloc(0)): Buffer => {
  const json = Buffer.from(typeof header === 'string' ? header : JSON.stringify(header));
  const size = Buffer.alloc(8);
  size.writeBigUInt64LE(BigInt(json.length));
  return Buffer.concat([size, json, payload]);
};

test("torch's initial weights are read by name, shape and value", () => {
  const tensors = readSafetensors(testData('torch_reference', 'gpt_tiny_init.safetensors'));
  assert.equal(tensors.size, 28);
  assert.deepEqual(tensors.get('blocks.0.qkv.weight')?.shape, [192, 64]);
  assert.deepEqual([...(tensors.get('ln_f.weight')?.values ?? [])], new Array(64).fill(1));
});

test('each kind of damage is an error that says what is wrong', () => {
  const entry = { dtype: 'F32', shape: [2], data_offsets: [0, 8] };
  const cases: readonly (readonly [Buffer, RegExp])[] = [
    [Buffer.from('abc'), /too short/],
    [Buffer.from('version https://git-lfs.github.com/spec/v1'), /git lfs pull/],
    [Buffer.from('PK\u0003\u0004\u0000\u0000\b\b'), /torch pickle.*python -c/],
    [Buffer.from([0x80, 2, 0x8a, 10, 0x6c, 0xfc, 0x9c, 0x46]), /torch pickle/],
    [file('{nonsense'), /not JSON/],
    [file({ a: { ...entry, dtype: 'F64' } }, Buffer.alloc(8)), /a \[2\] needs 16 bytes/],
    [file({ a: { ...entry, shape: [3] } }, Buffer.alloc(8)), /a \[3\] needs 12 bytes/],
    [file({ a: entry }, Buffer.alloc(4)), /a \[2\] needs 8 bytes/],
    [file({ a: entry }, Buffer.alloc(12)), /truncated or extended/],
    [file({ a: entry, b: { ...entry, data_offsets: [4, 12] } }, Buffer.alloc(12)), /a gap or an overlap/],
    [file({ a: { shape: [1] } }), /describes "a" wrongly/],
  ];
  for (const [bytes, message] of cases)
    assert.throws(() => parseSafetensors(bytes, 'x.safetensors'), message);
  assert.throws(() => readSafetensors('/nowhere/x.safetensors'), /cannot read/);
});

test('a header of 640 bytes is not mistaken for a pickle', () => {
  const bytes = file(JSON.stringify({ a: { dtype: 'F32', shape: [0], data_offsets: [0, 0] } }).padEnd(640));
  assert.deepEqual([...bytes.subarray(0, 2)], [0x80, 2]);
  assert.equal(parseSafetensors(bytes, 'x.safetensors').size, 1);
});

test('pickles are refused, and the error shows the line of Python that converts them', () => {
  for (const name of ['t5.pth', 'vae.pt', 'pytorch_model.bin'])
    assert.throws(
      () => parseSafetensors(Buffer.alloc(16), name),
      /torch\.load\('.*save_file.*\.safetensors'/,
    );
  const line = conversionLine("it's $HOME.pt");
  assert.match(line, /torch\.load\('it\\x27s \\x24HOME\.pt'/);
  assert.match(line, /'it\\x27s \\x24HOME\.safetensors'/);
});

test('parts of a tensor are read from the file, in every type', () => {
  const values = Float32Array.from({ length: 12 }, (_, i) => i / 4);
  const { bytes, fileBytes } = encodeHeader(
    new Map((['F32', 'BF16', 'F16', 'I32'] as const).map((dtype) => [dtype, { dtype, shape: [4, 3] }])),
    { format: 'pt' },
  );
  const data = (['F32', 'BF16', 'F16', 'I32'] as const).map((dtype) => encodeValues(values, dtype));
  const path = join(folder, 'types.safetensors');
  writeFileSync(path, Buffer.concat([bytes, ...data]));
  const stored = new SafetensorsFile(path);
  assert.equal(stored.header.metadata.format, 'pt');
  assert.equal(bytes.length + data.reduce((sum, part) => sum + part.length, 0), fileBytes);
  for (const dtype of ['F32', 'BF16', 'F16'] as const)
    assert.deepEqual([...decodeValues(stored.read(dtype, 5, 3), dtype)], [1.25, 1.5, 1.75]);
  assert.deepEqual([...decodeValues(stored.read('I32', 7, 2), 'I32')], [1, 2]);
  assert.throws(
    () => stored.read('F32', 10, 3),
    /elements 10 to 13 of F32 were requested, but its shape is \[4, 3\]/,
  );
  assert.throws(() => stored.read('b', 0, 1), /has no tensor b/);
  stored.close();
});
