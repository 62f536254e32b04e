import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import type { Engine } from '../../src/backend/engine';
import { type FusedKernels, loadFusedKernels } from '../../src/backend/kernels/fused-kernels';
import type { WasmBackend } from '../../src/backend/wasm-backend';
import * as tf from '../../src/core/tf';
import { assertClose, normals } from '../support/close';
import { ENGINE_CASES } from '../support/engines';

const GUARD = 1234.5;

/** Arrays in the test's own memory, each between guards that show a write out of bounds. */
class Arena {
  readonly kernels: FusedKernels;
  readonly #memory = new WebAssembly.Memory({ initial: 16 });
  readonly #floats: Float32Array;
  #top = 16;
  readonly #ranges: [number, number][] = [];

  constructor() {
    this.kernels = loadFusedKernels(this.#memory);
    this.#floats = new Float32Array(this.#memory.buffer).fill(GUARD);
  }

  /** Offset in bytes of a new array, `shift` elements away from 16-byte alignment. */
  put(values: ArrayLike<number>, shift = 1): number {
    const start = this.#top + shift;
    this.#floats.set(values, start);
    this.#ranges.push([start, start + values.length]);
    this.#top = (start + values.length + 24) & ~15;
    return start * 4;
  }

  take(offset: number, length: number): Float32Array {
    return this.#floats.slice(offset / 4, offset / 4 + length);
  }

  /** Integers in a new array. */
  putIntegers(values: readonly number[]): number {
    return this.put(new Float32Array(Int32Array.from(values).buffer));
  }

  assertGuards(): void {
    let next = 0;
    const ranges = [...this.#ranges, [this.#floats.length, this.#floats.length]];
    for (const [start = 0, end = 0] of ranges) {
      for (let i = next; i < start; i++) assert.equal(this.#floats[i], GUARD, `element ${i} was overwritten`);
      next = end;
    }
  }
}

/** Attention of `rows` queries to 2n keys, with 3 values each, in two blocks of keys; and its gradient in the second block. */
function flashBlocks(arena: Arena, rows: number, n: number): void {
  const { kernels } = arena;
  const width = 3;
  const zeros = (size: number): number => arena.put(new Float32Array(size));
  const [q, k] = [arena.put(normals(rows * width, 'q')), arena.put(normals(n * width, 'k'))];
  const [scores, out] = [zeros(rows * n), zeros(rows * width)];
  const [tops, sums, lse] = [zeros(rows), zeros(rows), zeros(rows)];
  for (const isFirst of [true, false]) {
    kernels.product(false, true, rows, n, width, q, width, k, width, 0, scores, n);
    kernels.flashWeights(
      scores,
      tops,
      sums,
      out,
      rows,
      n,
      isFirst ? n : 1 - rows,
      0.5,
      Number(isFirst),
      width,
      width,
    );
    kernels.product(false, false, rows, width, n, scores, n, k, width, isFirst ? 0 : 1, out, width);
  }
  kernels.flashEnd(tops, sums, out, lse, rows, width, width);
  const [deltas, dScores] = [zeros(rows), arena.put(normals(rows * n, 'ds'))];
  kernels.product(false, true, rows, n, width, q, width, k, width, 0, scores, n);
  kernels.flashWeightsAgain(scores, lse, rows, n, n, 0.5);
  kernels.flashDeltas(q, out, lse, deltas, rows, width, width);
  kernels.flashScoreGrad(scores, dScores, deltas, rows, n, 0.5);
  kernels.product(true, false, n, width, rows, dScores, n, q, width, 1, k, width);
  const weights = arena.take(scores, rows * n);
  for (let i = 0; i < rows; i++)
    assertClose([weights.slice(i * n, (i + 1) * n).reduce((a, b) => a + b, 0)], [1], 1e-6, 'sum of weights');
}

describe('the kernels write only their results, for every size and alignment', () => {
  for (const n of [1, 2, 3, 4, 5, 6, 7, 8, 9, 17]) {
    test(`sizes of ${n}`, () => {
      const arena = new Arena();
      const { kernels } = arena;
      const [x, y] = [normals(n, 'x'), normals(n, 'y')];
      const out = arena.put(new Float32Array(n));
      kernels.log(arena.put(x.map(Math.abs)), out, n);
      assertClose(
        arena.take(out, n),
        x.map((v) => Math.log(Math.abs(v))),
        2e-7,
        'log',
      );
      kernels.tanh(arena.put(x), out, n);
      assertClose(arena.take(out, n), x.map(Math.tanh), 2e-7, 'tanh');
      kernels.sqrt(arena.put(x.map(Math.abs)), out, n);
      assert.deepEqual(
        arena.take(out, n),
        x.map((v) => Math.sqrt(Math.abs(v))),
      );
      kernels.rsqrt(arena.put(x.map(Math.abs)), out, n);
      assertClose(
        arena.take(out, n),
        x.map((v) => 1 / Math.sqrt(Math.abs(v))),
        2e-7,
        'rsqrt',
      );
      kernels.power(arena.put(x), out, n, 3);
      assertClose(
        arena.take(out, n),
        x.map((v) => v ** 3),
        2e-7,
        'power',
      );
      kernels.exp(arena.put(x), out, n);
      assertClose(arena.take(out, n), x.map(Math.exp), 2e-7, 'exp');
      kernels.gelu(arena.put(x), out, n);
      kernels.geluGrad(arena.put(x), arena.put(y), out, n);
      kernels.scale(out, 2, n);
      kernels.fill(out, 0, n);
      kernels.addScaled(out, arena.put(y), 2, n);
      assert.deepEqual(
        arena.take(out, n),
        y.map((v) => 2 * v),
      );
      const bf16 = arena.put(x);
      kernels.roundToBfloat16(bf16, n);
      assert.deepEqual(arena.take(bf16, n), x.map(bfloat16));
      kernels.roundToFloat16(arena.put(x), n);
      arena.assertGuards();
    });

    test(`rows of ${n}`, () => {
      const arena = new Arena();
      const { kernels } = arena;
      const rows = 5;
      const x = normals(rows * n, 'matrix');
      const sums = arena.put(new Float32Array(n));
      kernels.columnSums(arena.put(x), sums, rows, n);
      const expected = Array.from({ length: n }, (_, j) =>
        [0, 1, 2, 3, 4].reduce((sum, i) => sum + (x[i * n + j] ?? 0), 0),
      );
      assertClose(arena.take(sums, n), expected, 1e-6, 'column sums');
      const flipped = arena.put(new Float32Array(rows * n));
      kernels.transpose(arena.put(x), flipped, rows, n);
      assert.deepEqual(
        arena.take(flipped, rows * n),
        x.map((_, i) => x[(i % rows) * n + Math.floor(i / rows)] ?? 0),
      );
      kernels.permute(arena.put(x), flipped, 1, 0, 1, 0, 1, 0, n, 1, rows, n);
      assert.deepEqual(
        arena.take(flipped, rows * n),
        x.map((_, i) => x[(i % rows) * n + Math.floor(i / rows)] ?? 0),
      );
      const [w, b, y] = [
        arena.put(normals(n, 'w')),
        arena.put(normals(n, 'b')),
        arena.put(new Float32Array(rows * n)),
      ];
      const stats = arena.put(new Float32Array(2 * rows));
      kernels.layerNorm(arena.put(x), w, b, y, stats, rows, n, 1e-5);
      const [dw, db] = [arena.put(new Float32Array(n)), arena.put(new Float32Array(n))];
      kernels.layerNormGrad(
        arena.put(x),
        w,
        stats,
        y,
        arena.put(new Float32Array(rows * n)),
        dw,
        db,
        rows,
        n,
      );
      kernels.causalSoftmax(arena.put(x), y, 1, Math.min(rows, n), n, 0.5);
      kernels.softmaxGrad(y, arena.put(x), y, rows, n, 0.5);
      flashBlocks(arena, rows, n);
      const ids = arena.putIntegers([0, n - 1, 0]);
      const taken = arena.put(new Float32Array(3 * n));
      assert.equal(kernels.takeRows(arena.put(x), ids, taken, 3, n, 1), -1);
      kernels.addToRows(arena.put(new Float32Array(n)), ids, taken, 3, n, 1);
      const losses = arena.put(new Float32Array(3));
      assert.equal(
        kernels.crossEntropy(
          arena.put(normals(3 * n, 'l')),
          ids,
          losses,
          arena.put(new Float32Array(3)),
          3,
          n,
        ),
        -1,
      );
      assert.equal(kernels.crossEntropyInPlace(arena.put(normals(3 * n, 'l')), ids, losses, 3, n, 1 / 3), -1);
      kernels.crossEntropyGrad(
        arena.put(normals(3 * n, 'l')),
        ids,
        losses,
        arena.put(new Float32Array(3 * n)),
        3,
        n,
        1,
      );
      kernels.fillRows(y, b, rows, n);
      arena.assertGuards();
    });
  }
});

describe('kernels on single values', () => {
  const arena = new Arena();

  test('rounding to bfloat16 and float16 is to nearest, ties to even, also for infinities, NaN and subnormals', () => {
    const values = [
      0,
      -0,
      1,
      1.00390625,
      1.01171875,
      65504,
      65519.99,
      65520,
      1e-7,
      5.96e-8,
      2.98e-8,
      3.4e38,
      Infinity,
      -Infinity,
      NaN,
      -3.3,
    ];
    const bf16 = arena.put(values);
    arena.kernels.roundToBfloat16(bf16, values.length);
    assert.deepEqual(arena.take(bf16, values.length), Float32Array.from(values, bfloat16));
    const f16 = arena.put(values);
    arena.kernels.roundToFloat16(f16, values.length);
    const expected = [
      0,
      -0,
      1,
      1.00390625,
      1.01171875,
      65504,
      65504,
      Infinity,
      2 ** -24 * 2,
      2 ** -24,
      0,
      Infinity,
      Infinity,
      -Infinity,
      NaN,
      -3.30078125,
    ];
    assert.deepEqual(arena.take(f16, values.length), Float32Array.from(expected));
  });

  test('exp is within two ulp over its range and gives zero and infinity at the ends', () => {
    const values = Float32Array.from({ length: 4001 }, (_, i) => -87 + (175.7 * i) / 4000);
    const [x, y] = [arena.put(values), arena.put(new Float32Array(values.length))];
    arena.kernels.exp(x, y, values.length);
    arena.take(y, values.length).forEach((actual, i) => {
      const exact = Math.exp(values[i] ?? 0);
      assert.ok(Math.abs(actual - exact) <= 2.5e-7 * exact, `exp(${values[i]}) = ${actual}, not ${exact}`);
    });
    const ends = arena.put([-1000, -104, 88.8, 1000, -Infinity, Infinity, NaN]);
    arena.kernels.exp(ends, ends, 7);
    assert.deepEqual(arena.take(ends, 7), Float32Array.of(0, 0, Infinity, Infinity, 0, Infinity, NaN));
  });

  test('tanh and log are precise over their range and at its ends', () => {
    const values = Float32Array.from({ length: 4001 }, (_, i) => (i - 2000) / 150);
    const [x, y] = [arena.put(values), arena.put(new Float32Array(values.length))];
    arena.kernels.tanh(x, y, values.length);
    arena.take(y, values.length).forEach((actual, i) => {
      const exact = Math.tanh(values[i] ?? 0);
      assert.ok(
        Math.abs(actual - exact) <= 4e-7 * Math.abs(exact),
        `tanh(${values[i]}) = ${actual}, not ${exact}`,
      );
    });
    const positive = Float32Array.from({ length: 2000 }, (_, i) => 10 ** (i / 27 - 37));
    const [p, q] = [arena.put(positive), arena.put(new Float32Array(2000))];
    arena.kernels.log(p, q, 2000);
    arena.take(q, 2000).forEach((actual, i) => {
      const exact = Math.log(positive[i] ?? 0);
      assert.ok(
        Math.abs(actual - exact) <= 3e-7 * Math.max(1, Math.abs(exact)),
        `log(${positive[i]}) = ${actual}`,
      );
    });
    const ends = arena.put([0, -1, Infinity, NaN, 1e-40, 1]);
    arena.kernels.log(ends, ends, 6);
    assertClose(arena.take(ends, 6).slice(4), [Math.log(1e-40), 0], 1e-6);
    assert.deepEqual(arena.take(ends, 4), Float32Array.of(-Infinity, NaN, Infinity, NaN));
    const far = arena.put([-100, 100, -Infinity, Infinity, NaN]);
    arena.kernels.tanh(far, far, 5);
    assert.deepEqual(arena.take(far, 5), Float32Array.of(-1, 1, -1, 1, NaN));
  });
});

describe('the heap', () => {
  let engine: Engine;
  before(async () => {
    engine = (await ENGINE_CASES[1]?.start()) as Engine; // there are two
  });

  test('large buffers start at cache lines', () => {
    const tensors = [300, 5000, 1025].map((n) => engine.allocate([n], 'float32', engine.currentTag));
    const { dataIdMap } = tf.backend() as unknown as WasmBackend; // the engine's own backend
    for (const tensor of tensors) assert.equal((dataIdMap.get(tensor.dataId).memoryOffset ?? 1) % 64, 0);
    tf.dispose(tensors);
  });
});

/** The nearest value with bfloat16's 8 bits of precision, ties to even. */
function bfloat16(value: number): number {
  if (Number.isNaN(value)) return Number.NaN;
  const bits = new Uint32Array(Float32Array.of(value).buffer);
  const own = bits[0] ?? 0;
  bits[0] = ((own + 0x7fff + ((own >>> 16) & 1)) & 0xffff0000) >>> 0;
  return new Float32Array(bits.buffer)[0] ?? 0;
}
