import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import fc from 'fast-check';
import * as tf from '../../../src/core/tf';
import {
  type ConvOptions,
  conv2d,
  convTranspose2d,
  maxPool2d,
  pairOf,
} from '../../../src/engine/backend/image-ops';
import { withMetaEngine } from '../../../src/engine/backend/meta-engine';
import { assertClose, normals } from '../../support/close';
import { ENGINE_CASES } from '../../support/engines';

const random = (label: string, ...shape: number[]): tf.Tensor =>
  tf.tensor(
    normals(
      shape.reduce((a, b) => a * b, 1),
      label,
    ),
    shape,
  );

interface Case {
  readonly images: number;
  readonly size: readonly [number, number];
  readonly groups: number;
  readonly channels: number;
  readonly outputs: number;
  readonly kernel: readonly [number, number];
  readonly stride: readonly [number, number];
  readonly padding: readonly [number, number];
  readonly dilation: readonly [number, number];
}

const upTo = (most: number, least = 1): fc.Arbitrary<number> => fc.integer({ min: least, max: most });
const CASES: fc.Arbitrary<Case> = fc
  .record({
    images: upTo(3),
    size: fc.tuple(upTo(9), upTo(9)),
    groups: upTo(3),
    channels: upTo(3),
    outputs: upTo(3),
    kernel: fc.tuple(upTo(3), upTo(3)),
    stride: fc.tuple(upTo(3), upTo(3)),
    padding: fc.tuple(upTo(2, 0), upTo(2, 0)),
    dilation: fc.tuple(upTo(2), upTo(2)),
  })
  .filter(({ size, kernel, padding, dilation }) =>
    [0, 1].every((i) => (size[i] ?? 0) + 2 * (padding[i] ?? 0) > ((kernel[i] ?? 0) - 1) * (dilation[i] ?? 0)),
  );

/** Calls `visit` for each multiplication of a convolution, with indices into x, weight and result. */
function multiplications(
  { images, size, groups, channels, outputs, kernel, stride, padding, dilation }: Case,
  visit: (x: number, weight: number, out: number) => void,
): void {
  const out = [0, 1].map(
    (i) =>
      Math.floor(
        ((size[i] ?? 0) + 2 * (padding[i] ?? 0) - ((kernel[i] ?? 1) - 1) * (dilation[i] ?? 1) - 1) /
          (stride[i] ?? 1),
      ) + 1,
  );
  let at = 0;
  for (let n = 0; n < images; n++)
    for (let o = 0; o < groups * outputs; o++)
      for (let y = 0; y < (out[0] ?? 0); y++)
        for (let x = 0; x < (out[1] ?? 0); x++, at++)
          for (let c = 0; c < channels; c++)
            for (let ky = 0; ky < kernel[0]; ky++)
              for (let kx = 0; kx < kernel[1]; kx++) {
                const row = y * stride[0] - padding[0] + ky * dilation[0];
                const column = x * stride[1] - padding[1] + kx * dilation[1];
                if (row < 0 || row >= size[0] || column < 0 || column >= size[1]) continue;
                const plane = n * groups * channels + Math.floor(o / outputs) * channels + c;
                visit(
                  (plane * size[0] + row) * size[1] + column,
                  ((o * channels + c) * kernel[0] + ky) * kernel[1] + kx,
                  at,
                );
              }
}

const valuesOf = (tensor: tf.Tensor | undefined): Float32Array => tensor?.dataSync() as Float32Array;

/** The options of a case, without its sizes. */
function optionsOf<T extends Required<ConvOptions>>({ stride, padding, dilation, groups }: T) {
  return { stride, padding, dilation, groups } satisfies ConvOptions as Pick<T, keyof ConvOptions>;
}

for (const { name, start } of ENGINE_CASES) {
  describe(`operations on images ${name}`, () => {
    before(() => start());

    test('a convolution and its gradients equal sums over all multiplications, for any sizes', () => {
      fc.assert(
        fc.property(CASES, (sizes) => {
          tf.tidy(() => {
            const { images, size, groups, channels, outputs, kernel } = sizes;
            const x = random('x', images, groups * channels, ...size);
            const weight = random('w', groups * outputs, channels, ...kernel);
            const bias = random('b', groups * outputs);
            const options = optionsOf(sizes);
            const y = conv2d(x, weight, bias, options);
            const dy = random('dy', ...y.shape);
            const [dx, dw, db] = tf.grads((a, b, c) =>
              conv2d(a as tf.Tensor, b as tf.Tensor, c as tf.Tensor, options),
            )([x, weight, bias], dy);
            const plane = y.size / images / groups / outputs;
            const biases = valuesOf(bias);
            const expected = {
              y: new Float32Array(y.size).map((_, i) => biases[Math.floor(i / plane) % biases.length] ?? 0),
              dx: new Float32Array(x.size),
              dw: new Float32Array(weight.size),
              db: valuesOf(tf.sum(dy, [0, 2, 3])),
            };
            const [xs, ws, dys] = [valuesOf(x), valuesOf(weight), valuesOf(dy)];
            const add = (to: Float32Array, at: number, value: number): void => {
              to[at] = (to[at] ?? 0) + value;
            };
            multiplications(sizes, (i, w, o) => {
              add(expected.y, o, (xs[i] ?? 0) * (ws[w] ?? 0));
              add(expected.dx, i, (dys[o] ?? 0) * (ws[w] ?? 0));
              add(expected.dw, w, (dys[o] ?? 0) * (xs[i] ?? 0));
            });
            assertClose(valuesOf(y), expected.y, 2e-5, 'y');
            assertClose(valuesOf(dx), expected.dx, 2e-5, 'dx');
            assertClose(valuesOf(dw), expected.dw, 2e-5, 'dw');
            assertClose(valuesOf(db), expected.db, 2e-5, 'db');
          });
        }),
        { numRuns: 60, seed: 12 },
      );
    });

    test('a transposed convolution is the adjoint of the convolution, and so are its gradients', () => {
      fc.assert(
        fc.property(CASES, (sizes) => {
          tf.tidy(() => {
            const { images, size, groups, channels, outputs, kernel, stride, padding, dilation } = sizes;
            const weight = random('w', groups * outputs, channels, ...kernel);
            const wide = random('x', images, groups * channels, ...size);
            const y = random('y', ...conv2d(wide, weight, null, optionsOf(sizes)).shape);
            const rest = [0, 1].map((i) => {
              const extent =
                size[i as 0 | 1] + 2 * padding[i as 0 | 1] - ((kernel[i] ?? 1) - 1) * (dilation[i] ?? 1) - 1;
              return extent % (stride[i] ?? 1);
            });
            const options = { ...optionsOf(sizes), outputPadding: pairOf(rest as [number, number]) };
            const back = convTranspose2d(y, weight, null, options);
            assert.deepEqual(back.shape, wide.shape);
            const sum = (a: tf.Tensor, b: tf.Tensor): number => tf.sum(tf.mul(a, b)).dataSync()[0] ?? 0;
            const expected = sum(conv2d(wide, weight, null, optionsOf(sizes)), y);
            assertClose([sum(back, wide)], [expected], 1e-4, 'adjoint');
            const [dy, dw] = tf.grads((a, b) =>
              convTranspose2d(a as tf.Tensor, b as tf.Tensor, null, options),
            )([y, weight], wide);
            assertClose([sum(dy as tf.Tensor, y)], [expected], 1e-4, 'dy');
            assertClose([sum(dw as tf.Tensor, weight)], [expected], 1e-4, 'dw');
          });
        }),
        { numRuns: 30, seed: 13 },
      );
    });

    test('the largest value of a window gets the whole gradient, of equal values the first', () => {
      tf.tidy(() => {
        const x = tf.tensor([1, 3, 3, 2, 5, 0, 4, 4, 4], [1, 1, 3, 3]);
        const y = maxPool2d(x, 2, { stride: 1 });
        assert.deepEqual([...y.dataSync()], [5, 5, 5, 5]);
        const dx = tf.grad((a) => maxPool2d(a, 2, { stride: 2, ceilMode: true }))(
          x,
          tf.tensor([1, 2, 3, 4], [1, 1, 2, 2]),
        );
        assert.deepEqual([...dx.dataSync()], [0, 0, 2, 0, 1, 0, 3, 0, 4]);
      });
    });

    test('padding of more than half of a pooling window, and a window that does not fit, are refused', () => {
      const x = tf.ones([1, 1, 3, 3]);
      assert.throws(() => maxPool2d(x, 2, { padding: 2 }), /padding \[2,2\] is more than half of the window/);
      assert.throws(() => maxPool2d(x, 4), /a window of \[4,4\] does not fit into \[1,1,3,3\]/);
      assert.throws(
        () => conv2d(x, tf.ones([2, 3, 1, 1])),
        /filter \[2,3,1,1\] in 1 group does not fit an input \[1,1,3,3\]/,
      );
    });
  });
}

test('the meta engine gives the same shapes', () => {
  withMetaEngine({}, () => {
    const x = tf.ones([2, 4, 9, 9]);
    const y = conv2d(x, tf.ones([6, 2, 3, 3]), tf.ones([6]), { stride: 2, padding: 'valid', groups: 2 });
    assert.deepEqual(y.shape, [2, 6, 4, 4]);
    assert.deepEqual(maxPool2d(y, 3, { stride: 2, padding: 1 }).shape, [2, 6, 2, 2]);
    assert.deepEqual(
      convTranspose2d(y, tf.ones([6, 4, 2, 2]), tf.ones([4]), { stride: 2 }).shape,
      [2, 4, 8, 8],
    );
  });
});
