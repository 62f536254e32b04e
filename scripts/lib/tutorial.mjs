import { readFileSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { notebookFiles } from './notebook-inputs.mjs';
import { root } from './places.mjs';

const [START, END] = ['<!-- notebooks: `npm run notebooks` writes it -->\n', '<!-- end of notebooks -->'];

/** Writes the list of notebooks, with the time and memory of their last runs, into docs/tutorial/index.md. */
export function writeTutorial(page = join(root, 'docs', 'tutorial', 'index.md')) {
  const text = readFileSync(page, 'utf8');
  const [from, to] = [text.indexOf(START) + START.length, text.indexOf(END)];
  const rows = notebookFiles().map((path) => rowOf(basename(path), JSON.parse(readFileSync(path, 'utf8'))));
  writeFileSync(page, `${text.slice(0, from)}\n${tableOf(rows)}\n${text.slice(to)}`);
}

/** What a notebook asks, and what its last run took. */
function rowOf(file, { cells, metadata }) {
  const [, question = ''] = /^# (.*)$/m.exec([cells[0]?.source ?? ''].flat().join('')) ?? [];
  return { file, question, needsTorch: metadata.shardlab?.needs === 'torch', ...metadata.shardlab?.run };
}

function tableOf(rows) {
  const processors = [...new Set(rows.flatMap(({ processor }) => processor ?? []))];
  return [
    '| notebook | question | seconds | memory |',
    '|---|---|---|---|',
    ...rows.map(({ file, question, needsTorch, seconds, peakMB }) => {
      const needs = needsTorch ? ' (needs PyTorch; without it, the stored outputs remain)' : '';
      const link = `[${file.replace('.ipynb', '')}](../../notebooks/${file})`;
      return `| ${link} | ${question}${needs} | ${seconds ?? '–'} | ${peakMB ? `${(peakMB / 1e3).toFixed(1)} GB` : '–'} |`;
    }),
    '',
    `Run on ${processors.join('; ')}.`,
    '',
  ].join('\n');
}
