import {
  copyFileSync,
  mkdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { basename, join } from 'node:path';
import { notebookText } from './notebook-text.mjs';
import { filesBelow, root } from './places.mjs';

/**
 * Writes the notebooks that the package contains to build/notebooks, if they have changed: without outputs, which the user's run
 * makes, except for cells that need PyTorch, which the user may not have; and without links to files of the clone. The folder
 * `texts`, on which notebooks train, is a link in the clone, and files in the package.
 */
export function packNotebooks(build) {
  const folder = join(build, 'notebooks');
  const notebooks = filesBelow(join(root, 'notebooks')).filter(
    (file) => file.endsWith('.ipynb') && !file.includes('.ipynb_checkpoints'),
  );
  const names = new Set(notebooks.map((file) => basename(file)));
  for (const file of filesBelow(folder)) {
    if (file.endsWith('.ipynb') && !names.has(basename(file))) rmSync(file);
  }
  mkdirSync(folder, { recursive: true });
  packTexts(join(folder, 'texts'));
  for (const file of notebooks) {
    const target = join(folder, basename(file));
    if (isNewer(target, file)) continue;
    writeFileSync(target, notebookText(packed(JSON.parse(readFileSync(file, 'utf8')))));
  }
}

/** Copies the texts that have changed, and deletes those that are gone. */
function packTexts(folder) {
  const texts = filesBelow(realpathSync(join(root, 'notebooks', 'texts')));
  const names = new Set(texts.map((file) => basename(file)));
  for (const file of filesBelow(folder)) if (!names.has(basename(file))) rmSync(file);
  mkdirSync(folder, { recursive: true });
  for (const file of texts) {
    const target = join(folder, basename(file));
    if (!isNewer(target, file)) copyFileSync(file, target);
  }
}

/** Whether a file is there, and was written after the other one. */
function isNewer(file, than) {
  const written = statSync(file, { throwIfNoEntry: false });
  return written !== undefined && written.mtimeMs >= statSync(than).mtimeMs;
}

/** Returns a notebook as the package has it. */
export function packed(notebook) {
  const { inputs: _, ...own } = notebook.metadata.shardlab ?? {};
  const start = own.needs === 'torch' ? notebook.cells.findIndex(startsTorch) : -1;
  const cells = notebook.cells.map((cell, index) => {
    if (cell.cell_type !== 'code') return { ...cell, source: [cell.source].flat().map(withoutLinks) };
    const needsTorch = start >= 0 && index >= start && !NO_RANKS.test(sourceOf(cell));
    return needsTorch ? cell : { ...cell, outputs: [], execution_count: null };
  });
  return { ...notebook, cells, metadata: { ...notebook.metadata, shardlab: own } };
}

/** A cell that shows claims, which need no ranks. */
const NO_RANKS = /^sl\.claims\(/;

function startsTorch(cell) {
  return cell.cell_type === 'code' && sourceOf(cell).includes("engine: 'torch'");
}

function sourceOf({ source }) {
  return [source].flat().join('');
}

function withoutLinks(line) {
  return line.replaceAll(/\[([^\]]*)\]\(\.\.\/[^)]*\)/g, '$1');
}
