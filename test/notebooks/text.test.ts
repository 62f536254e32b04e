import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { test } from 'node:test';
import { DISPLAY } from '../../src/core/display';
import { commTimeline } from '../../src/figures/comm-timeline';
import { simulatedRun } from '../figures/gallery-runs';
import { importScript } from '../project/scripts';
import { type Notebook, notebookInputs } from './executed';

interface Text {
  notebookText(notebook: Notebook): string;
}

interface Storing {
  storeExecuted(paths: readonly string[], execute: (path: string) => Promise<number>): Promise<number>;
}

const written = importScript<Text>('notebook-text');

function notebookOf(shown: { readonly [DISPLAY]?: () => Readonly<Record<string, unknown>> }): Notebook {
  const data = shown[DISPLAY]?.() ?? {};
  return { cells: [{ cell_type: 'code', source: '', outputs: [{ output_type: 'display_data', data }] }] };
}

test('the text of a notebook is its JSON, with one line per trace of an interactive figure', async () => {
  const { notebookText } = await written;
  const timeline = notebookOf(commTimeline(simulatedRun({ strategy: 'FULL_SHARD', world: 2 })).toPlotly());
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

test('every notebook of the repository is stored as its text, and each of its figures has a picture', async () => {
  const { notebookText } = await written;
  for (const path of (await notebookInputs()).notebookFiles()) {
    const text = readFileSync(path, 'utf8');
    // A file of the repository, written by notebookText.
    const notebook = JSON.parse(text) as Notebook;
    assert.equal(text, notebookText(notebook), `${basename(path)}: npm run notebooks stores it`);
    for (const { outputs = [] } of notebook.cells)
      for (const { data } of outputs)
        assert.ok(!String(data?.['text/html']).startsWith('<img') || data?.['image/png'] !== undefined);
  }
});
