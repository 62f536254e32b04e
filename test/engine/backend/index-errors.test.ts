import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import * as tf from '../../../src/core/tf';
import { withMetaEngine } from '../../../src/engine/backend/meta-engine';
import { embedding, softmaxCrossEntropy } from '../../../src/engine/backend/ops';
import { gpt } from '../../../src/nn/models/gpt';
import { ENGINE_CASES } from '../../support/engines';

const ids = (...values: number[]): tf.Tensor1D => tf.tensor1d(values, 'int32');
const x = (): tf.Tensor2D => tf.ones([4, 3]);

/** Calls as a user writes them, and the error of each. */
const CALLS: Readonly<Record<string, readonly [() => unknown, RegExp]>> = {
  'tf.slice beyond the end': [
    () => tf.slice(x(), [2, 0], [8, 3]),
    /Slice: 8 elements from 2 along axis 0 end outside of x float32 \[4,3\]/,
  ],
  'tf.slice from a negative place': [
    () => tf.slice(x(), [-2, 0], [1, 3]),
    /Slice: begin\[0\] is -2; it must be an integer of at least 0/,
  ],
  'tf.gather': [() => tf.gather(x(), ids(4)), /GatherV2: element 0 of indices is 4/],
  'tf.gatherND': [
    () => tf.gatherND(x(), tf.tensor2d([[0, 3]], [1, 2], 'int32')),
    /GatherNd: element 1 of indices is 3.*are 0 to 2/,
  ],
  'tf.scatterND': [
    () => tf.scatterND(tf.tensor2d([[9]], [1, 1], 'int32'), tf.ones([1, 3]), [4, 3]),
    /ScatterNd: element 0 of indices is 9/,
  ],
  'tf.tensorScatterUpdate': [
    () => tf.tensorScatterUpdate(x(), tf.tensor2d([[-1]], [1, 1], 'int32'), tf.ones([1, 3])),
    /TensorScatterUpdate: element 0 of indices is -1/,
  ],
  'tf.unsortedSegmentSum': [
    () => tf.unsortedSegmentSum(x(), ids(0, 1, 2, 3), 3),
    /UnsortedSegmentSum: element 3 of segmentIds is 3/,
  ],
  'tf.sparseToDense': [
    () => tf.sparseToDense(ids(7), tf.ones([1]), [4]),
    /SparseToDense: element 0 of sparseIndices is 7/,
  ],
  'tf.bincount': [
    () => tf.bincount(ids(5), ids(), 4),
    /Bincount: element 0 of x is 5, but indices of 4 bins are 0 to 3/,
  ],
  'tf.oneHot': [() => tf.oneHot(ids(3), 3), /OneHot: element 0 of indices is 3, but indices of 3 classes/],
  'tf.image.cropAndResize': [
    () => tf.image.cropAndResize(tf.ones([1, 4, 4, 1]), tf.tensor2d([[0, 0, 1, 1]]), ids(1), [2, 2]),
    /CropAndResize: element 0 of boxInd is 1/,
  ],
  'a filter larger than its image': [
    () => tf.conv2d(tf.ones<tf.Rank.R4>([1, 4, 4, 2]), tf.ones([6, 6, 2, 1]), 1, 'valid'),
    /Conv2D: a window of \[6,6\] does not fit into an input of \[1,4,4,2\]/,
  ],
  'a type that a kernel does not know': [
    () => tf.relu(tf.greater(x(), 0)),
    /Relu: x is bool \[4,3\]; cast it to float32 or int32/,
  ],
  'an axis that occurs twice': [
    () => tf.sum(x(), [1, 1]),
    /Sum: axis is \[1, 1\]; each axis may occur only once/,
  ],
  'a negative pad': [
    () =>
      tf.pad(x(), [
        [-1, 0],
        [0, 0],
      ]),
    /PadV2: paddings\[0\]\[0\] is -1/,
  ],
  'an integer divided by 0': [() => tf.mod(ids(1), ids(0)), /Mod: element 0 of the divisor int32 \[1\] is 0/],
  'an embedding': [
    () => embedding(x(), ids(4)),
    /Embedding: element 0 of ids is 4, but indices of the table's 4 rows/,
  ],
  'a label': [
    () => softmaxCrossEntropy(x(), ids(0, 1, 2, 3)),
    /CrossEntropy: element 3 of labels is 3, but indices of 3 classes/,
  ],
  'a gradient': [
    () => tf.grad((table: tf.Tensor) => tf.sum(tf.gather(table, ids(-1))))(x()),
    /GatherV2: element 0 of indices is -1/,
  ],
};

describe('a wrong argument is an error that names the kernel and the value', () => {
  before(async () => {
    await ENGINE_CASES[1]?.start();
  });

  for (const [name, [call, said]] of Object.entries(CALLS)) {
    test(name, () => {
      const before = tf.memory().numTensors;
      tf.tidy(() => {
        assert.throws(call, said);
      });
      assert.equal(tf.memory().numTensors, before);
    });
  }

  test('a sequence that is too long for a GPT is an error that names the position embedding', () => {
    const model = gpt({ layers: 1, dim: 8, heads: 2, vocab: 16, seq: 4 });
    tf.tidy(() => {
      assert.throws(
        () => model.apply(tf.zeros([1, 8], 'int32'), tf.zeros([8], 'int32')),
        /sequence length 8 exceeds the model's seq 4 \(the number of rows of wpe, the position embedding.*build the model with seq: 8/,
      );
    });
    model.dispose();
  });

  test('a dry run has no values, but refuses wrong shapes too', () => {
    withMetaEngine({}, () => {
      assert.throws(() => tf.slice(x(), [2, 0], [8, 3]), /Slice: 8 elements from 2 along axis 0/);
      assert.deepEqual(tf.gather(x(), ids(9)).shape, [1, 3]);
    });
  });
});
