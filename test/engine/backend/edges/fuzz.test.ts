import assert from 'node:assert/strict';
import { test } from 'node:test';
import { testEngine } from '../../../support/wasm-test-engine';
import { differencesOf } from './fuzz';

test("2,000 random calls have the results of tfjs's JavaScript backend", async () => {
  await testEngine();
  assert.deepEqual(await differencesOf(2000, 34), []);
});
