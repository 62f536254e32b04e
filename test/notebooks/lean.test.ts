import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { test } from 'node:test';
import { commTimeline } from '../../src/figures/comm-timeline';
import type { Figure } from '../../src/figures/figure';
import { lossCurve } from '../../src/figures/loss-curve';
import { DISPLAY } from '../../src/figures/table';
import { simulatedRun } from '../figures/gallery';
import { importScript } from '../project/scripts';
import { type Notebook, notebookInputs } from './executed';

interface Lean {
  leanNotebook(notebook: Notebook): Notebook;
  notebookText(notebook: Notebook): string;
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
