import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { leanNotebook, notebookText } from './lean-notebook.mjs';
import { filesBelow, root } from './places.mjs';

/** Where a notebook says what its outputs came from. */
const KEY = 'shardlab';

/** The repository's notebooks. */
export function notebookFiles() {
  return filesBelow(join(root, 'notebooks')).filter(
    (file) => file.endsWith('.ipynb') && !file.includes('.ipynb_checkpoints'),
  );
}

/** What a notebook's outputs come from: its code cells, and the sources of library and kernel. */
export function inputsOf(path) {
  const { cells } = JSON.parse(readFileSync(path, 'utf8'));
  const hash = createHash('sha256');
  for (const file of ['src', 'kernel'].flatMap((folder) => filesBelow(join(root, folder)))) {
    hash.update(`${relative(root, file)}\0`).update(readFileSync(file));
  }
  for (const cell of cells) if (cell.cell_type === 'code') hash.update(`\0${[cell.source].flat().join('')}`);
  return hash.digest('hex');
}

/** Whether an executed notebook's inputs have changed since. */
export function isStale(path) {
  return JSON.parse(readFileSync(path, 'utf8')).metadata[KEY]?.inputs !== inputsOf(path);
}

/** Makes an executed notebook lean, and notes in it what its outputs came from. */
export function storeNotebook(path) {
  const notebook = leanNotebook(JSON.parse(readFileSync(path, 'utf8')));
  notebook.metadata[KEY] = { inputs: inputsOf(path) };
  writeFileSync(path, notebookText(notebook));
}
