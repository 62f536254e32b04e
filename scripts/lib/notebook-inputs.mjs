import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { fromBuild } from './from-build.mjs';
import { isChinese } from './notebook-pair.mjs';
import { notebookText } from './notebook-text.mjs';
import { filesBelow, root } from './places.mjs';
import { hasSlides, withSlides } from './slides.mjs';

/** The key of a notebook's metadata that stores a hash of everything on which the notebook's outputs depend. */
const KEY = 'shardlab';

/** Returns the repository's notebooks without the Chinese ones, whose code and outputs are copies. */
export function notebookFiles() {
  return storedNotebooks().filter((file) => !isChinese(file));
}

/** Returns the Chinese notebooks of the repository. */
export function chineseFiles() {
  return storedNotebooks().filter(isChinese);
}

function storedNotebooks() {
  return filesBelow(join(root, 'notebooks')).filter(
    (file) => file.endsWith('.ipynb') && !file.includes('.ipynb_checkpoints'),
  );
}

/** Returns a hash of everything on which a notebook's outputs depend: code cells, and the sources of library and kernel. */
export function inputsOf(path) {
  const { cells } = JSON.parse(readFileSync(path, 'utf8'));
  const hash = createHash('sha256');
  const sources = ['src', 'kernel', 'claims'].flatMap((folder) => filesBelow(join(root, folder)));
  // Python writes its caches beside its sources when ranks of PyTorch run.
  for (const file of sources.filter((path) => !path.includes('__pycache__'))) {
    hash.update(`${relative(root, file)}\0`).update(readFileSync(file));
  }
  for (const cell of cells) if (cell.cell_type === 'code') hash.update(`\0${[cell.source].flat().join('')}`);
  return hash.digest('hex');
}

/** Whether a notebook's inputs have changed since it was executed. */
export function isStale(path) {
  return JSON.parse(readFileSync(path, 'utf8')).metadata[KEY]?.inputs !== inputsOf(path);
}

/**
 * Returns why a notebook cannot be executed here; undefined: it can be executed. If there is no PyTorch, a notebook that needs
 * PyTorch ("needs": "torch" in its metadata) keeps its stored outputs.
 */
export function whyNotHere(path, env = process.env) {
  if (JSON.parse(readFileSync(path, 'utf8')).metadata[KEY]?.needs !== 'torch') return undefined;
  const { describeTorch, torchPython } = fromBuild('torch/find-python');
  const { python, missing } = torchPython(env);
  const found = python === undefined ? missing : describeTorch(python);
  return typeof found === 'string'
    ? `it needs PyTorch, which is missing here (${found}); install it by npx shardlab engine torch`
    : undefined;
}

/** Marks the slides of an executed notebook of the lesson, and stores the hash of the notebook's inputs in it. */
export function storeNotebook(path) {
  const executed = JSON.parse(readFileSync(path, 'utf8'));
  const notebook = hasSlides(path) ? withSlides(executed) : executed;
  notebook.metadata[KEY] = { ...notebook.metadata[KEY], inputs: inputsOf(path) };
  writeFileSync(path, notebookText(notebook));
}
