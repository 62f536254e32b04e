import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { ROOT, readSources } from './sources';

/** Words that are wrong wherever they stand in prose, and what docs/words.md says instead. */
const WRONG: readonly (readonly [RegExp, string])[] = [
  [/\breckon(s|ed|ing)?\b/i, 'estimate, work out'],
  [/\bdearer\b/i, 'more expensive'],
  [/\b(is|are|was|were|be|been) told\b/i, 'gets, knows, or who reports to whom'],
  [/\bso many\b(?! that)/i, 'the number of what, or at most'],
  [/\bnobody's matter\b/i, 'does not affect'],
  [/\bis (its|their|the [a-z]+'s) matter\b/i, 'depends on'],
  [
    /\b(once|twice|bytes|tokens|layouts) a (step|rank|GPU|unit|layer|microbatch|chunk|second|token)\b/i,
    'per',
  ],
];

/** Prose of a file: lines with their numbers. */
interface Line {
  readonly where: string;
  readonly text: string;
}

function linesOf(path: string, text: string): Line[] {
  return text.split('\n').map((line, i) => ({ where: `${path}:${i + 1}`, text: line }));
}

function documents(): Line[] {
  const folders = ['docs', 'docs/adr'].map((folder) =>
    readdirSync(join(ROOT, folder))
      .filter((name) => name.endsWith('.md') && !['words.md', 'settings.md'].includes(name))
      .map((name) => `${folder}/${name}`),
  );
  const paths = ['README.md', 'CHANGELOG.md', ...folders.flat()];
  return paths.flatMap((path) => linesOf(path, readFileSync(join(ROOT, path), 'utf8')));
}

function notebookTexts(): Line[] {
  return readdirSync(join(ROOT, 'notebooks'))
    .filter((name) => name.endsWith('.ipynb'))
    .flatMap((name) => {
      // Notebooks are nbformat 4, written by the project itself.
      const { cells } = JSON.parse(readFileSync(join(ROOT, 'notebooks', name), 'utf8')) as {
        cells: readonly { cell_type: string; source: string | readonly string[] }[];
      };
      return cells.flatMap(({ cell_type: type, source }, i) =>
        type === 'markdown' ? linesOf(`notebooks/${name}, cell ${i}`, [source].flat().join('')) : [],
      );
    });
}

/** Comments only: a word in code may be a name. */
function comments(): Line[] {
  return [...readSources('src', 'kernel')]
    .flatMap(([path, text]) => linesOf(path, text))
    .filter(({ text }) => /^\s*(\/\*|\*|\/\/)|\s\/\/ /.test(text));
}

function wrongWords(lines: readonly Line[]): string[] {
  return lines.flatMap(({ where, text }) =>
    WRONG.flatMap(([pattern, instead]) => {
      const word = pattern.exec(text)?.[0];
      return word === undefined ? [] : [`${where}: "${word}"; write: ${instead}`];
    }),
  );
}

for (const [name, lines] of Object.entries({ documents, notebooks: notebookTexts, comments })) {
  test(`${name} use the words of docs/words.md`, () => assert.deepEqual(wrongWords(lines()), []));
}

test('a wrong word is found and named with its line', () => {
  assert.deepEqual(wrongWords(linesOf('a.md', 'Right.\nIt is dearer.')), [
    'a.md:2: "dearer"; write: more expensive',
  ]);
  assert.deepEqual(wrongWords(linesOf('a.md', 'There are so many that a page is full.')), []);
});
