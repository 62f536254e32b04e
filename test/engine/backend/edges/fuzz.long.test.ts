import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ENGINE_CASES } from '../../../support/engines';
import { differencesOf } from './fuzz';

for (const [i, { name, start }] of ENGINE_CASES.entries()) {
  test(`20,000 random calls have the results of tfjs's JavaScript backend, ${name}`, async () => {
    await start();
    assert.deepEqual(await differencesOf(20_000, i), []);
  });
}
