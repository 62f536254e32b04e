import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createSampler, permutation } from '../../../src/training/data/sampler';
import { dataReference } from './data-reference';

test("each rank reads the rows that torch's DistributedSampler gives it, in the same order, epoch after epoch", () => {
  for (const { ranks, ...options } of dataReference().samplers) {
    const sampler = createSampler(options);
    for (const [rank, epochs] of ranks.entries()) {
      const expected = epochs.flat();
      assert.equal(sampler.rowsPerRank * epochs.length, expected.length);
      const rows = expected.map((_, position) => sampler.rowAt(rank, position));
      assert.deepEqual(rows, expected, JSON.stringify({ ...options, rank }));
    }
  }
});

test('a position gives the same row whatever was read before', () => {
  const options = { length: 100, world: 3, shuffle: true, seed: 1, dropLast: false };
  const inOrder = createSampler(options);
  const rows = Array.from({ length: 90 }, (_, position) => inOrder.rowAt(1, position));
  assert.equal(createSampler(options).rowAt(1, 80), rows[80]);
  assert.equal(inOrder.rowAt(1, 2), rows[2]);
});

test('a permutation has every number once', () => {
  for (const length of [0, 1, 2, 1000]) {
    const sorted = permutation(length, length + 7).sort();
    assert.deepEqual([...sorted], [...Array(length).keys()]);
  }
});
