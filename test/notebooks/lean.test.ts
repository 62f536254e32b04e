import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { test } from 'node:test';
import { DISPLAY } from '../../src/core/display';
import { commTimeline } from '../../src/figures/comm-timeline';
import type { Figure } from '../../src/figures/figure';
import { lossCurve } from '../../src/figures/loss-curve';
import { simulatedRun } from '../figures/gallery-runs';
import { importScript } from '../project/scripts';
import { type Notebook, notebookInputs } from './executed';

interface Lean {
  leanNotebook(notebook: Notebook): Notebook;
  notebookText(notebook: Notebook): string;
}

interface Storing {
  storeExecuted(paths: readonly string[], execute: (path: string) => Promise<number>): Promise<number>;
}

const INTERACTIVE = 'application/vnd.plotly.v1+json';
const lean = importScript<Lean>('lean-notebook');

function notebookOf(figure: Figure): Notebook {
  const data: Readonly<Record<string, unknown>> = figure[DISPLAY]();
  return { cells: [{ cell_type: 'code', source: '', outputs: [{ output_type: 'display_data', data }] }] };
}

const formsOf = ({ cells }: Notebook): string[] => Object.keys(cells[0]?.outputs?.[0]?.data ?? {}).sort();

test('a stored figure keeps picture and text, and a timeline also its interactive form', async () => {
  const { leanNotebook } = await lean;
  const loss = notebookOf(lossCurve([{ name: '', losses: [3, 2.5, 2] }]));
  const timeline = notebookOf(commTimeline(simulatedRun({ strategy: 'FULL_SHARD', world: 2 })));
  assert.deepEqual(formsOf(loss), [INTERACTIVE, 'image/png', 'text/plain']);
  assert.deepEqual(formsOf(leanNotebook(loss)), ['image/png', 'text/plain']);
  assert.deepEqual(leanNotebook(timeline), timeline);
});

test('the text of a notebook is its JSON, with one line per trace of a figure', async () => {
  const { notebookText } = await lean;
  const timeline = notebookOf(commTimeline(simulatedRun({ strategy: 'FULL_SHARD', world: 2 })));
  const text = notebookText(timeline);
  assert.deepEqual(JSON.parse(text), JSON.parse(JSON.stringify(timeline)));
  assert.ok(text.split('\n').length < 100);
});

test('notebooks that ran are stored, and those that failed are named at the end', async (context) => {
  const { storeExecuted } = await importScript<Storing>('store-executed');
  const folder = mkdtempSync(join(tmpdir(), 'shardlab-store-'));
  context.after(() => rmSync(folder, { recursive: true, force: true }));
  const text = JSON.stringify({ cells: [], metadata: {} });
  const paths = ['a', 'b', 'c'].map((name) => join(folder, `${name}.ipynb`));
  const stored = (): string[] =>
    paths.filter((path) => readFileSync(path, 'utf8') !== text).map((path) => basename(path, '.ipynb'));
  const run = (...statuses: readonly number[]): Promise<number> => {
    for (const path of paths) writeFileSync(path, text);
    return storeExecuted(paths, async (path) => statuses[paths.indexOf(path)] ?? 0);
  };
  await assert.rejects(
    run(0, 1, 0),
    /^Error: Failed and not stored: \S*b\.ipynb\. Stored: 2 of 3 notebooks$/,
  );
  assert.deepEqual(stored(), ['a', 'c']);
  assert.equal(await run(0, 130, 0), 130);
  assert.deepEqual(stored(), ['a']);
  assert.equal(await run(0, 0, 0), 0);
  assert.deepEqual(stored(), ['a', 'b', 'c']);
});

test('every notebook of the repository is stored lean, and each of its figures has a picture', async () => {
  const { leanNotebook, notebookText } = await lean;
  for (const path of (await notebookInputs()).notebookFiles()) {
    const text = readFileSync(path, 'utf8');
    // A file of the repository, written by notebookText.
    const notebook = JSON.parse(text) as Notebook;
    assert.equal(
      text,
      notebookText(leanNotebook(notebook)),
      `${basename(path)}: npm run notebooks stores it`,
    );
    for (const { outputs = [] } of notebook.cells)
      for (const { data } of outputs)
        assert.ok(data?.[INTERACTIVE] === undefined || data['image/png'] !== undefined);
  }
});
