import { before, describe, test } from 'node:test';
import * as tf from '../../../src/core/tf';
import { assertClose, normals } from '../../support/close';
import { onBothBackends } from '../../support/cpu-reference';
import { ENGINE_CASES } from '../../support/engines';

const random = (...shape: [number, number, number, number]): tf.Tensor4D =>
  tf.tensor4d(
    normals(
      shape.reduce((a, b) => a * b, 1),
      `convolution ${shape}`,
    ),
    shape,
  );

/** Gradients of a sum of squares with respect to image and filter. */
const gradientsOf = (
  convolve: (x: tf.Tensor4D, filter: tf.Tensor4D) => tf.Tensor,
  x: tf.Tensor4D,
  filter: tf.Tensor4D,
): tf.Tensor[] =>
  tf.grads((a, b) => tf.sum(tf.square(convolve(a as tf.Tensor4D, b as tf.Tensor4D))))([x, filter]);

const CASES: Readonly<Record<string, () => readonly tf.Tensor[]>> = {
  'a convolution that keeps the size': () =>
    gradientsOf((x, filter) => tf.conv2d(x, filter, 1, 'same'), random(3, 7, 6, 4), random(3, 3, 4, 5)),
  'a convolution with strides': () =>
    gradientsOf((x, filter) => tf.conv2d(x, filter, [2, 3], 'valid'), random(2, 9, 8, 3), random(3, 2, 3, 2)),
  'a convolution with explicit padding': () =>
    gradientsOf((x, filter) => tf.conv2d(x, filter, 2, 1), random(2, 6, 6, 2), random(4, 4, 2, 3)),
  'a depthwise convolution': () =>
    gradientsOf(
      (x, filter) => tf.depthwiseConv2d(x, filter, 1, 'same'),
      random(2, 5, 6, 3),
      random(3, 3, 3, 2),
    ),
  'a depthwise convolution with strides': () =>
    gradientsOf(
      (x, filter) => tf.depthwiseConv2d(x, filter, 2, 'valid'),
      random(2, 7, 7, 2),
      random(2, 3, 2, 1),
    ),
};

for (const { name, start } of ENGINE_CASES) {
  describe(name, () => {
    before(() => start());
    for (const [what, work] of Object.entries(CASES)) {
      test(`the gradients of ${what} equal those of tfjs's plain backend`, async () => {
        const { expected, actual } = await onBothBackends(work);
        for (const [i, values] of expected.entries()) {
          assertClose(actual[i] ?? new Float32Array(), values, 1e-5);
        }
      });
    }
  });
}
