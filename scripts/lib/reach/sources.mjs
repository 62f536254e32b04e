import { createHash } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from '../places.mjs';
import { readDeclarations } from './declarations.mjs';
import { Graph } from './graph.mjs';

/** What was read of each source, by the hash of its path and text, because reading all of them takes seconds. */
const CACHE = join(root, 'build', 'declarations.json');

/** Whether a file is TypeScript that the build compiles, or a script. Others are data, such as AssemblyScript. */
export function isSource(path) {
  return /^(src|kernel|test|scripts)\/.*\.(ts|mjs)$/.test(path) && !/\.d\.ts$|\/assembly\//.test(path);
}

/** The graph of these files of the repository. */
export function readGraph(paths) {
  const known = readCache();
  const read = {};
  const reader = createHash('sha1')
    .update(readFileSync(join(root, 'scripts', 'lib', 'reach', 'declarations.mjs')))
    .digest('hex');
  const files = paths
    .filter((path) => (isSource(path) || isProgram(path)) && existsSync(join(root, path)))
    .map((path) => {
      const text = readFileSync(join(root, path), 'utf8');
      const key = createHash('sha1').update(`${reader}\0${path}\0${text}`).digest('base64');
      read[key] = known[key] ?? (isSource(path) ? readDeclarations(path, text) : readProgram(path, text));
      return read[key];
    });
  if (Object.keys(read).some((key) => !(key in known))) writeFileSync(CACHE, JSON.stringify(read));
  return new Graph(files, paths);
}

function readCache() {
  try {
    return JSON.parse(readFileSync(CACHE, 'utf8'));
  } catch {
    return {};
  }
}

/** Whether a file has code that is not read as a source, but that names what it uses: a notebook, or Python. */
function isProgram(path) {
  return path.endsWith('.ipynb') || /^(src|test|scripts)\/.*\.py$/.test(path);
}

function readProgram(path, text) {
  const texts = path.endsWith('.ipynb')
    ? JSON.parse(text)
        .cells.filter(({ cell_type }) => cell_type === 'code')
        .map(({ source }) => [[source].flat().join('')])
    : [[text]];
  const statements = { uses: [], paths: [], names: [], reads: [], modules: [], loads: [], texts };
  return { path, imports: {}, loads: [], stars: [], exports: {}, declarations: { '': statements } };
}
