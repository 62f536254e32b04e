import assert from 'node:assert/strict';
import { basename } from 'node:path';
import { test } from 'node:test';
import { errorsIn, notebookInputs, readNotebook } from './executed';
import { unshownFacts } from './facts';
import { falseSentences } from './sentences';

test('every notebook is stored as it was executed from top to bottom, without an error', async (t) => {
  const { notebookFiles, isStale } = await notebookInputs();
  for (const path of notebookFiles()) {
    await t.test(
      basename(path),
      { skip: isStale(path) ? 'its inputs changed: stale-*.slow.test.ts executes it' : false },
      () => {
        const notebook = readNotebook(path);
        assert.deepEqual(errorsIn(notebook), []);
        const counts = notebook.cells.flatMap((cell) =>
          cell.cell_type === 'code' ? [cell.execution_count] : [],
        );
        assert.deepEqual(
          counts,
          counts.map((_, i) => i + 1),
        );
      },
    );
  }
});

test('all sentences of a stored notebook agree with its numbers', async (t) => {
  const { notebookFiles, isStale } = await notebookInputs();
  for (const path of notebookFiles()) {
    // A changed notebook's stored outputs may be of other sentences.
    await t.test(basename(path), { skip: isStale(path) ? 'its inputs changed' : false }, () => {
      const notebook = readNotebook(path);
      assert.deepEqual([...falseSentences(notebook), ...unshownFacts(path, notebook)], []);
    });
  }
});
