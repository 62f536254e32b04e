import assert from 'node:assert/strict';
import test from 'node:test';
import { compileKernels, instantiateKernels } from '../../../src/wire/transport/kernels/load';
import { roundToBfloat16, roundToFloat16 } from '../dist/values';

const NUM_PAGES = 64;
const memory = new WebAssembly.Memory({ initial: NUM_PAGES, maximum: NUM_PAGES, shared: true });
const kernels = instantiateKernels(compileKernels(), memory);
const floats = new Float32Array(memory.buffer);
const words = new Uint32Array(memory.buffer);
const halves = new Uint16Array(memory.buffer);
const TARGET = 2 ** 20;
const BACK = 2 ** 21;

/** All 65,536 16-bit values as float32, then back: every value must be unchanged. */
function roundTrip(from: typeof kernels.widen.float16, to: typeof kernels.narrow.float16): void {
  for (let bits = 0; bits < 65536; bits++) halves[bits] = bits;
  from(TARGET, 0, 65536);
  to(BACK, TARGET, 65536);
  for (let bits = 0; bits < 65536; bits++) {
    const value = floats[TARGET / 4 + bits] ?? 0;
    const back = halves[BACK / 2 + bits];
    if (!Number.isNaN(value)) assert.equal(back, bits, `bits ${bits.toString(16)}`);
    else assert.ok(((back ?? 0) & 0x7fff) > 0x7c00, `NaN ${bits.toString(16)} became ${back?.toString(16)}`);
  }
}

test('every float16 converts to float32 and back to the same float16, and NaN stays NaN', () => {
  roundTrip(kernels.widen.float16, kernels.narrow.float16);
  floats[TARGET / 4] = 0;
  kernels.widen.float16(TARGET, 2 * 0x3c01, 8);
  assert.equal(floats[TARGET / 4], 1 + 2 ** -10);
});

test('every bfloat16 converts to float32 and back to the same bfloat16, and NaN stays NaN', () => {
  roundTrip(kernels.widen.bfloat16, kernels.narrow.bfloat16);
});

test('float32 rounds to the nearest float16, ties to even, at every exponent', () => {
  const length = 4096;
  const cases = [
    [kernels.narrow.float16, kernels.widen.float16, roundToFloat16],
    [kernels.narrow.bfloat16, kernels.widen.bfloat16, roundToBfloat16],
  ] as const;
  for (const [to, from, round] of cases) {
    for (let i = 0; i < length; i++) {
      // All exponents, with fractions at, just below and just above ties.
      words[i] =
        ((((i % 254) + 1) << 23) |
          ([0x1000, 0xfff, 0x1001, 0x3000, 0x8000, 0x7fff, 0x18000, 0x7fffff][i % 8] ?? 0)) >>>
        0;
    }
    to(TARGET, 0, length);
    from(BACK, TARGET, length);
    for (let i = 0; i < length; i++) {
      assert.equal(floats[BACK / 4 + i], round(floats[i] ?? 0), `${floats[i]}`);
    }
  }
});

test('reductions add sources in their order', () => {
  const length = 64;
  const sources = [65536, 131072, 196608];
  sources.forEach((at, k) => {
    words[k] = at;
    for (let i = 0; i < length; i++) floats[at / 4 + i] = [1e8, 1, -1e8][k] ?? 0;
  });
  kernels.reduce.float32(0, TARGET, 0, 3, length, 1);
  assert.equal(floats[TARGET / 4 + 5], Math.fround(Math.fround(1e8 + 1) - 1e8));
  kernels.reduce.float32(1, TARGET, 0, 3, length, 1);
  assert.equal(floats[TARGET / 4 + 63], 1e8);
});
