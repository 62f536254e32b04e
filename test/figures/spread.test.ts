import assert from 'node:assert/strict';
import { test } from 'node:test';
import { areApart, quartilesText, savingOf, spreadOf } from '../../src/figures/spread';

test('a spread is the median and the quartiles, or the outer values if there are few', () => {
  assert.deepEqual(spreadOf([9, 1, 2, 3, 4, 5, 6, 7, 8]), { median: 5, low: 3, high: 7 });
  assert.deepEqual(spreadOf([3, 1, 2]), { median: 2, low: 1, high: 3 });
  assert.deepEqual(spreadOf([]), { median: 0, low: 0, high: 0 });
});

test('one late step does not hide a saving, and overlapping spreads are not a saving', () => {
  const most = spreadOf([20, 21, 22, 23, 24]);
  const least = spreadOf([10, 11, 12, 13, 40]);
  assert.ok(areApart(least, most));
  assert.deepEqual(savingOf(least, most), { median: 10, low: 8, high: 12 });
  assert.equal(quartilesText(savingOf(least, most), 1), '(8.0–12.0)');
  assert.ok(!areApart(spreadOf([10, 11, 21, 23, 24]), most));
});
