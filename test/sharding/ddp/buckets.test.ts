import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import * as tf from '../../../src/core/tf';
import { Parameter } from '../../../src/nn/parameter';
import { assignBuckets } from '../../../src/sharding/ddp/reducer';

before(() => tf.ready());

test('buckets take parameters in reverse order, close when they are full, and the first bucket is small', () => {
  const parameters = [5, 4, 3, 2, 1].map((size) => new Parameter(tf.zeros([size])));
  const sizes = (first: number, rest: number): number[][] =>
    assignBuckets(parameters, { firstBucketBytes: first, bucketBytes: rest }).map((bucket) =>
      bucket.map((parameter) => parameter.size),
    );
  assert.deepEqual(sizes(4, 20), [[1], [2, 3], [4, 5]]);
  assert.deepEqual(sizes(1e9, 1e9), [[1, 2, 3, 4, 5]]);
  assert.deepEqual(sizes(1, 1), [[1], [2], [3], [4], [5]]);
  for (const parameter of parameters) parameter.tensor.dispose();
});
