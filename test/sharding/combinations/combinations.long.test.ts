import assert from 'node:assert/strict';
import { test } from 'node:test';
import { testCombinations } from './combination-suite';
import { COMBINATIONS, type CombinationName } from './combinations';

const NAMES = Object.keys(COMBINATIONS) as CombinationName[]; // its own keys

test('there are 32 combinations', () => {
  assert.equal(NAMES.length, 32);
});

testCombinations('all combinations', NAMES);
