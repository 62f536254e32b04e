import assert from 'node:assert/strict';
import { dirname } from 'node:path';
import { test } from 'node:test';
import { importCircles } from './circles';
import type { Sources } from './layers';
import { readAllSources, readFiles, readSources } from './sources';

const MEDIAN_LINES = 150;
const MOST_LINES = 500;
const MOST_FILES = 40;

/** Files that may be longer, each with its reason. */
const LONGER: Readonly<Record<string, string>> = {};

const sources = readSources('src', 'kernel', 'site/planner');
const lengths = lengthsOf(sources);
const folders = numFilesByFolder(readAllSources('src', 'kernel', 'site/planner', 'test').keys());

test('the number of lines of src and kernel is reported', (context) => {
  const [total, claims] = ['', 'src/claims/'].map((start) => numLines(start)) as [number, number];
  const [largest = ['', 0]] = [...folders]
    .filter(([path]) => !path.startsWith('test'))
    .sort(([, a], [, b]) => b - a);
  context.diagnostic(
    `src and kernel: ${total} lines, ${total - claims} without src/claims; files: median ${quantile(0.5)}, ` +
      `p95 ${quantile(0.95)} lines; largest folder: ${largest[0]} with ${largest[1]} files; ` +
      `circles of imports, types included: ${importCircles(sources).length}`,
  );
});

test(`the median source file has at most ${MEDIAN_LINES} lines`, () => {
  assert.ok(quantile(0.5) <= MEDIAN_LINES, `the median is ${quantile(0.5)}`);
});

test(`no source file has more than ${MOST_LINES} lines without a reason in this test`, () => {
  const long = lengths.filter(({ path, lines }) => lines > MOST_LINES && !(path in LONGER));
  assert.deepEqual(long, []);
});

test(`no module of the Python package has more than ${MOST_LINES} lines`, () => {
  const modules = lengthsOf(readFiles(['src/python'], '.py'));
  const long = modules.filter(({ lines }) => lines > MOST_LINES);
  assert.deepEqual(long, []);
});

test(`no folder has more than ${MOST_FILES} files`, () => {
  const large = [...folders].filter(([, numFiles]) => numFiles > MOST_FILES);
  assert.deepEqual(large, [], 'divide the folder into rooms that can be named in three words');
});

test('no files import each other in a circle, types included', () => {
  assert.deepEqual(importCircles(sources), [], 'move what both sides need into a file below them');
});

test('every file with a reason to be long still exists and is still long', () => {
  const needless = Object.keys(LONGER).filter(
    (path) => !lengths.some((file) => file.path === path && file.lines > MOST_LINES),
  );
  assert.deepEqual(needless, []);
});

test('a circle of three files is found, also through imports of types, without the files outside the circle', () => {
  const circular = new Map([
    ['src/a.ts', `import type { B } from './b';`],
    ['src/b.ts', `export { c } from './c';\nimport './d';`],
    ['src/c.ts', `type A = import('./a').A;\nimport { a } from './a';`],
    ['src/d.ts', ''],
    ['src/e.ts', `import './a';`],
  ]);
  assert.deepEqual(importCircles(circular), [['src/a.ts', 'src/b.ts', 'src/c.ts']]);
});

function lengthsOf(files: Sources): readonly { readonly path: string; readonly lines: number }[] {
  return [...files].map(([path, text]) => ({ path, lines: text.trimEnd().split('\n').length }));
}

/** Lines of src and kernel, including files that AssemblyScript compiles, whose path starts with the prefix. */
function numLines(start: string): number {
  return lengthsOf(readAllSources('src', 'kernel'))
    .filter(({ path }) => path.startsWith(start))
    .reduce((sum, { lines }) => sum + lines, 0);
}

function numFilesByFolder(paths: Iterable<string>): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const path of paths) counts.set(dirname(path), (counts.get(dirname(path)) ?? 0) + 1);
  return counts;
}

function quantile(share: number): number {
  const sorted = lengths.map(({ lines }) => lines).sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;
}
