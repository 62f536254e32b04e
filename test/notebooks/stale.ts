import assert from 'node:assert/strict';
import { basename } from 'node:path';
import { test } from 'node:test';
import { errorsIn, executed, notebookInputs, skip } from './executed';

const NUM_PARTS = 3;

/**
 * If a run has only the tests that a change reaches, the files of the change: such a run executes only notebooks that changed,
 * because every change of the library reaches all notebooks, and they take minutes.
 */
const CHANGED = process.env.SHARDLAB_TEST_CHANGED?.split('\n');

/** Executes every third notebook, from the `part`-th on, if its inputs changed: one file for all would exceed a test file's time. */
export function executeStale(part: number): void {
  const title = `notebooks run without an error if their code or the library changed since they were executed, part ${part}`;
  test(title, { skip }, async (t) => {
    const { notebookFiles, isStale, whyNotHere } = await notebookInputs();
    for (const [i, path] of notebookFiles().entries()) {
      if (i % NUM_PARTS !== part - 1 || !isStale(path)) continue;
      const isUnchanged = CHANGED?.includes(`notebooks/${basename(path)}`) === false;
      const why = isUnchanged ? 'only the library changed: npm test -- --all executes it' : whyNotHere(path);
      await t.test(basename(path), { skip: why ?? false }, () => {
        const { notebook, failure } = executed(path);
        assert.equal(failure, undefined, failure);
        assert.deepEqual(errorsIn(notebook), []);
      });
    }
  });
}
