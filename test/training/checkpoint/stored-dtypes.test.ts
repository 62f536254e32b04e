import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as tf from '../../../src/core/tf';
import { decodeValues, encodeValues } from '../../../src/training/checkpoint/format/stored-dtypes';
import { testEngine } from '../../support/wasm-test-engine';

const ALL_HALVES = Uint16Array.from({ length: 65536 }, (_, bits) => bits);

for (const dtype of ['BF16', 'F16'] as const) {
  test(`every ${dtype} number stays the same when it is read and written`, () => {
    const values = decodeValues(new Uint8Array(ALL_HALVES.buffer), dtype);
    const encoded = encodeValues(values, dtype);
    const again = new Uint16Array(encoded.buffer, encoded.byteOffset, ALL_HALVES.length);
    for (const [i, bits] of ALL_HALVES.entries()) {
      if (Number.isNaN(values[i]))
        assert.ok(Number.isNaN(decodeValues(encoded.subarray(2 * i, 2 * i + 2), dtype)[0]));
      else assert.equal(again[i], bits);
    }
  });
}

test("values are rounded as by the engine's kernels", async () => {
  const engine = await testEngine();
  // Random bits, and values around the middle between two numbers of either type.
  const words = Uint32Array.from({ length: 40_000 }, (_, i) => {
    const random = Math.imul(i + 1, 2654435761) >>> 0;
    return i % 2 === 0 ? random : ((random & 0xffff0000) | (0x8000 + (i % 3) - 1)) >>> 0;
  });
  const values = new Float32Array(words.buffer).filter((value) => Number.isFinite(value));
  for (const [dtype, stored] of [
    ['bfloat16', 'BF16'],
    ['float16', 'F16'],
  ] as const) {
    const tensor = tf.tensor1d(values);
    engine.round(tensor, dtype);
    const rounded = tensor.dataSync<'float32'>();
    const ours = decodeValues(encodeValues(values, stored), stored);
    assert.deepEqual(
      new Uint32Array(Float32Array.from(ours).buffer),
      new Uint32Array(Float32Array.from(rounded).buffer),
    );
    tensor.dispose();
  }
});

test('32-bit values are stored unchanged, and read from any address', () => {
  const bytes = new Uint8Array(9);
  bytes.set(encodeValues(Float32Array.of(1.5, -0), 'F32'), 1);
  assert.deepEqual([...decodeValues(bytes.subarray(1), 'F32')], [1.5, -0]);
  assert.deepEqual([...decodeValues(encodeValues(Int32Array.of(-7), 'I32'), 'I32')], [-7]);
});
