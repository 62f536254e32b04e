import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseSafetensors, readSafetensors } from '../../src/checkpoint/safetensors';
import { testData } from '../support/paths';

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

test('every damage is an error that says what is wrong', () => {
  const entry = { dtype: 'F32', shape: [2], data_offsets: [0, 8] };
  const cases: readonly (readonly [Buffer, RegExp])[] = [
    [Buffer.from('abc'), /too short/],
    [Buffer.from('version https://git-lfs.github.com/spec/v1'), /git lfs pull/],
    [file('{nonsense'), /not JSON/],
    [file({ a: { ...entry, dtype: 'F8' } }, Buffer.alloc(8)), /a is F8/],
    [file({ a: { ...entry, shape: [3] } }, Buffer.alloc(8)), /a \[3\] needs 12 bytes/],
    [file({ a: entry }, Buffer.alloc(4)), /a \[2\] needs 8 bytes/],
    [file({ a: entry }, Buffer.alloc(12)), /cut off or appended/],
    [file({ a: entry, b: { ...entry, data_offsets: [4, 12] } }, Buffer.alloc(12)), /a gap or an overlap/],
    [file({ a: { shape: [1] } }), /a is described wrongly/],
  ];
  for (const [bytes, message] of cases)
    assert.throws(() => parseSafetensors(bytes, 'x.safetensors'), message);
  assert.throws(() => readSafetensors('/nowhere/x.safetensors'), /cannot read/);
});
