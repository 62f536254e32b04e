import assert from 'node:assert/strict';
import { test } from 'node:test';
import { areApart, quartilesText, spreadOf } from '../../src/figures/step-times';

test('a spread is the median and the quartiles, or the outer values if there are few', () => {
  assert.deepEqual(spreadOf([9, 1, 2, 3, 4, 5, 6, 7, 8]), { median: 5, low: 3, high: 7 });
  assert.deepEqual(spreadOf([3, 1, 2]), { median: 2, low: 1, high: 3 });
  assert.deepEqual(spreadOf([]), { median: 0, low: 0, high: 0 });
});

test('one late step does not hide a difference, and overlapping spreads are not a difference', () => {
  const most = spreadOf([20, 21, 22, 23, 24]);
  const least = spreadOf([10, 11, 12, 13, 40]);
  assert.ok(areApart(least, most));
  assert.equal(quartilesText(least, 1), '(11.0–13.0)');
  assert.ok(!areApart(spreadOf([10, 11, 21, 23, 24]), most));
});
