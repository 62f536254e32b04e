import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { assignmentOf } from '../../../src/session/exercises/assignment';
import { notebookInputs } from '../../notebooks/executed';

type Cells = readonly {
  readonly id?: string;
  readonly source: string | readonly string[];
  readonly metadata: { readonly nbgrader?: { readonly grade_id: string; readonly points: number } };
  readonly outputs?: readonly unknown[];
}[];

function notebook(...sources: readonly string[]): object {
  const outputs = [{ output_type: 'stream', text: 'old' }];
  return {
    ...{ nbformat: 4, nbformat_minor: 5, metadata: {} },
    cells: sources.map((source, i) => ({
      cell_type: 'code',
      id: `${i}`,
      source,
      outputs,
      metadata: { tags: ['a'] },
    })),
  };
}

function cellsOf(value: unknown, points = 1): Cells {
  return assignmentOf('a.ipynb', value, points).notebook.cells as Cells;
}

test('an exercise becomes a cell for the answer and a locked cell that checks it', () => {
  const cells = cellsOf(notebook("const a = f(1);\nawait sl.check('01.world', NaN) // f(2) GPUs"), 2);
  assert.deepEqual(
    cells.map(({ source }) => source),
    [
      'const a = f(1);\nconst answer01World = NaN; // f(2) GPUs',
      "await display(await sl.check('01.world', answer01World));",
    ],
  );
  assert.equal(cells[0]?.metadata.nbgrader, undefined);
  assert.deepEqual(cells[1]?.metadata.nbgrader, {
    ...{ grade: true, solution: false, locked: true, task: false, points: 2 },
    ...{ grade_id: '01-world', schema_version: 3, cell_type: 'code' },
  });
  assert.ok(cells.every(({ outputs }) => outputs?.length === 0));
});

test('an answer that an earlier cell computes needs no further cell', () => {
  const sources = ["const mean = await job.on('all').run(() => NaN);", "await sl.check('00.mean', mean)"];
  assert.deepEqual(
    cellsOf(notebook(...sources)).map(({ source }) => source),
    [sources[0], "await display(await sl.check('00.mean', mean));"],
  );
});

test('an expression with brackets is the whole answer', () => {
  const [answer] = cellsOf(notebook("await sl.check('02.bytes', f((1), 2))"));
  assert.equal(answer?.source, 'const answer02Bytes = f((1), 2);');
});

test('each notebook with exercises becomes an assignment with all of them, and ids of cells stay different', async () => {
  for (const path of (await notebookInputs()).notebookFiles()) {
    const text = readFileSync(path, 'utf8');
    const asked = new Set([...text.matchAll(/await sl\.check\('([\w.]+)'/g)].map(([, id]) => id));
    const { exercises, notebook: made } = assignmentOf(path, JSON.parse(text), 1);
    assert.deepEqual([...exercises].sort(), [...asked].sort());
    const ids = (made.cells as Cells).map(({ id }) => id);
    assert.equal(new Set(ids).size, ids.length, path);
  }
});

test('a value that is no notebook, and a notebook without exercises, are refused', () => {
  for (const value of [null, 3, {}, { nbformat: 4, cells: [1] }, { nbformat: 3, cells: [] }])
    assert.throws(() => assignmentOf('a.ipynb', value, 1), {
      code: 'CONFIG',
      message: /a\.ipynb is not a notebook/,
    });
  assert.throws(() => assignmentOf('a.ipynb', notebook('1'), 1), {
    code: 'CONFIG',
    message: /has no exercise/,
  });
});
