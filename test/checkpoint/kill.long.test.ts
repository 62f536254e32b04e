import assert from 'node:assert/strict';
import { test } from 'node:test';
import { killWhileSaving } from './kills';

test('200 kills while ranks save leave the last good checkpoint each time', async (t) => {
  const { numSaved, numAmidst } = await killWhileSaving(200, 4);
  t.diagnostic(`${numSaved} saves were complete; ${numAmidst} kills fell into one`);
  assert.ok(numSaved > 200 && numAmidst > 50);
});
