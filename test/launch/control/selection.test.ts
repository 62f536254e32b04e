import assert from 'node:assert/strict';
import { test } from 'node:test';
import { rankNames } from '../../../src/core/rank-names';
import { parseSelection } from '../../../src/launch/control/selection';

test('a selection is a number, a list, ranges or all, and is returned ascending without repetition', () => {
  assert.deepEqual(parseSelection(2, 4), [2]);
  assert.deepEqual(parseSelection([3, 0, 3], 4), [0, 3]);
  assert.deepEqual(parseSelection('0-3', 4), [0, 1, 2, 3]);
  assert.deepEqual(parseSelection('0, 2-3', 4), [0, 2, 3]);
  assert.deepEqual(parseSelection('all', 3), [0, 1, 2]);
});

test('the error of a selection without ranks of the job shows the possible forms', () => {
  assert.throws(() => parseSelection('4', 4), /rank 4 was selected, but the job has ranks 0-3/);
  assert.throws(() => parseSelection('0-999999999', 4), /rank 999999999/);
  assert.throws(() => parseSelection('3-1', 4), /names no ranks/);
  assert.throws(() => parseSelection('', 4), /names no ranks/);
  assert.throws(() => parseSelection('two', 4), /write a number/);
  assert.throws(() => parseSelection([], 4), /names no ranks/);
  assert.throws(() => parseSelection(1.5, 4), /names no ranks/);
});

test('consecutive ranks are named as ranges', () => {
  assert.equal(rankNames([1]), 'rank 1');
  assert.equal(rankNames([0, 1]), 'ranks 0-1');
  assert.equal(rankNames([3, 2, 1, 0]), 'ranks 0-3');
  assert.equal(rankNames([0, 1, 3]), 'ranks 0, 1, 3');
  assert.equal(rankNames([0, 2, 3, 4, 5]), 'ranks 0, 2-5');
});
