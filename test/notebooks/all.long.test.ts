import assert from 'node:assert/strict';
import { basename } from 'node:path';
import { test } from 'node:test';
import { executed, notebookInputs, skip } from './executed';

test('every notebook runs from a fresh kernel in less than two minutes, without an error', {
  skip,
}, async (t) => {
  const { notebookFiles } = await notebookInputs();
  for (const path of notebookFiles()) {
    await t.test(basename(path), (sub) => {
      const start = performance.now();
      const { failure } = executed(path);
      assert.equal(failure, undefined, failure);
      const seconds = (performance.now() - start) / 1e3;
      sub.diagnostic(`${seconds.toFixed(0)} s`);
      assert.ok(seconds < 120, `${seconds} s`);
    });
  }
});
