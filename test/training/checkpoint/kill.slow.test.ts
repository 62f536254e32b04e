import assert from 'node:assert/strict';
import { test } from 'node:test';
import { killWhileSaving } from './kills';

test('3 kills while ranks save leave the last good checkpoint each time', async (t) => {
  const { numSaved, numAmidst } = await killWhileSaving(3, 11);
  t.diagnostic(`${numSaved} saves were complete; ${numAmidst} kills fell into one`);
  assert.ok(numSaved > 0);
});
