import assert from 'node:assert/strict';
import { test } from 'node:test';
import { killWhileSaving } from './kills';

const KILLS = 25;

for (const seed of [4, 5, 6, 7, 8, 9, 10, 11]) {
  test(`${KILLS} kills while ranks save leave the last good checkpoint each time (seed ${seed})`, async (t) => {
    const { numSaved, numAmidst } = await killWhileSaving(KILLS, seed);
    t.diagnostic(`${numSaved} saves were complete; ${numAmidst} kills fell into one`);
    assert.ok(numSaved >= KILLS && numAmidst >= KILLS / 5);
  });
}
