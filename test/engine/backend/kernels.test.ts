import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { assertClose, normals } from '../../support/close';
import { Arena, bfloat16 } from './arena';

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
      kernels.geluExact(arena.put(x), out, n);
      kernels.geluExactGrad(arena.put(x), arena.put(y), out, n);
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

    test(`images of ${n} columns`, () => {
      const arena = new Arena();
      const { kernels } = arena;
      const [channels, height] = [2, 3];
      const image = arena.put(normals(channels * height * n, 'image'));
      const zeros = (size: number): number => arena.put(new Float32Array(size));
      // A window of 2 x 3 with stride 1 and 2, padding 1 and dilation 1.
      const outX = Math.floor((n - 1) / 2) + 1;
      const window = [height, n, 2, 3, 1, 2, 1, 1, 1, 1, 4, outX] as const;
      const columns = zeros(channels * 6 * 4 * outX);
      kernels.columns(image, columns, channels, ...window);
      kernels.addColumns(zeros(channels * height * n), columns, channels, ...window);
      const [y, places] = [zeros(channels * 4 * outX), zeros(channels * 4 * outX)];
      kernels.maxPool(image, y, places, channels, ...window);
      kernels.maxPoolGrad(y, places, zeros(channels * height * n), channels, height * n, 4 * outX);
      const sizes = [height, channels, n] as const;
      const [mean, variance, sums] = [zeros(channels), zeros(channels), zeros(channels)];
      kernels.channelMoments(image, mean, variance, ...sizes);
      kernels.channelSums(image, sums, ...sizes);
      kernels.channelProducts(image, image, mean, sums, ...sizes);
      // The sum of (x - mean) x is the sum of (x - mean)².
      const spread = arena.take(variance, channels).map((value) => value * height * n);
      assertClose(arena.take(sums, channels), spread, 1e-5, 'spread');
      const dx = zeros(channels * height * n);
      kernels.channelAffine(image, mean, variance, dx, ...sizes);
      for (const period of [1, n])
        kernels.dropout(image, dx, channels * height * n, period, 1, 2, 2 ** 30, 2);
      kernels.channelGrad(image, image, mean, variance, mean, sums, dx, ...sizes);
      arena.assertGuards();
    });

    test(`rows of ${n}`, () => {
      const arena = new Arena();
      const { kernels } = arena;
      const rows = 5;
      const x = normals(rows * n, 'matrix');
      const sums = arena.put(new Float32Array(n));
      kernels.sums(arena.put(x), sums, 1, rows, n, 1);
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
        arena.put(new Float32Array(4 * n)),
        2,
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
