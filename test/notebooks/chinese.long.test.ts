import assert from 'node:assert/strict';
import { basename } from 'node:path';
import { test } from 'node:test';
import { errorsIn, executed, notebookInputs, skip } from './executed';

/**
 * The notebooks that are executed: the first one, and one whose code reads a file beside the notebooks' folder. All others have the
 * same code cells as the English ones, which all.long.test.ts executes.
 */
const EXECUTED = /^0[01]-/;

test('a Chinese notebook runs in a fresh kernel without an error', { skip }, async (t) => {
  const paths = (await notebookInputs()).chineseFiles().filter((path) => EXECUTED.test(basename(path)));
  assert.equal(paths.length, 2);
  for (const path of paths) {
    await t.test(basename(path), () => {
      const { notebook, failure } = executed(path);
      assert.equal(failure, undefined, failure);
      assert.deepEqual(errorsIn(notebook), []);
    });
  }
});
