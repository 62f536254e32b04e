import assert from 'node:assert/strict';
import { test } from 'node:test';
import { firstNames, listed } from '../../src/core/listed';
import { mean, median, sumOf, total } from '../../src/core/statistics';

test('the median of an odd number of values is the middle value, whatever their order', () => {
  const values = [9, 1, 5];
  assert.equal(median(values), 5);
  assert.equal(median([7]), 7);
  assert.deepEqual(values, [9, 1, 5]);
});

test('the median of an even number of values is the mean of the two in the middle', () => {
  assert.equal(median([8, 1, 2, 4]), 3);
  assert.equal(median([1, 2]), 1.5);
});

test('without values, the median is NaN, and mean and sum are 0', () => {
  assert.ok(Number.isNaN(median([])));
  assert.deepEqual([mean([]), total([]), sumOf([], Number)], [0, 0, 0]);
});

test('sums and means are over all values', () => {
  assert.deepEqual([total([1, 2, 6]), mean([1, 2, 6])], [9, 3]);
  assert.equal(
    sumOf(['a', 'bcd'], ({ length }) => length),
    4,
  );
});

test('words are joined with commas, and with a conjunction before the last', () => {
  assert.deepEqual(
    [[], ['a'], ['a', 'b'], ['a', 'b', 'c']].map((words) => listed(words)),
    ['', 'a', 'a and b', 'a, b and c'],
  );
  assert.equal(listed(['a', 'b'], 'or'), 'a or b');
});

test('a long list of names ends with the number of names that are left', () => {
  assert.equal(firstNames(['a', 'b', 'c', 'd']), 'a, b, c, d');
  assert.equal(firstNames(['a', 'b', 'c', 'd', 'e', 'f']), 'a, b, c, d and 2 more');
});
