import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { ROOT, readSources } from './sources';

/** Words that are wrong in any prose, and what docs/words.md says instead. */
const WRONG: readonly (readonly [RegExp, string])[] = [
  [/\breckon(s|ed|ing)?\b/i, 'estimate, work out'],
  [/\bdearer\b/i, 'more expensive'],
  [/\b(is|are|was|were|be|been) told\b/i, 'gets, knows, or who reports to whom'],
  [/\bso many\b(?! that)/i, 'the number of what, or at most'],
  [/\bno more than\b/i, 'at most'],
  [/\bnobody's\b/i, 'does not affect'],
  [/\bis (its|their|the [a-z]+'s) matter\b|\ba matter of\b/i, 'depends on'],
  [/\b(goes|going|went|gone) on(?! (the|a|an|one|its|their|rank|wire)\b)\b/i, 'continue'],
  [/\b(all|none|nothing|nobody) but\b/i, 'all except, other than, only'],
  [/\bcame to\b/i, 'the result of'],
  [/\bfor want of\b/i, 'because there is no'],
  [
    new RegExp(
      '\\b(once|twice|times|bytes|tokens|elements|rows|states|layouts|ms|µs) an? ' +
        '(step|rank|GPU|unit|layer|block|micro-?batch|chunk|token|parameter|element|value)\\b',
      'i',
    ),
    'per',
  ],
];

/** Words that are wrong in a title, which has no other text around it. */
const WRONG_IN_TITLES: readonly (readonly [RegExp, string])[] = [
  ...WRONG,
  [/\b(tells?|told)\b/i, 'report, say, name'],
  [/\b(a product|products)\b/i, 'matmul'],
  [/\b(lies?|lay) (in|at|on|beside|below|outside|where|elsewhere)\b/i, 'is in, is at'],
  [/\bstands? (in|at|on|beside|where|elsewhere)\b/i, 'is in, is at'],
  [/\bof which\b/i, 'whose, or two sentences'],
  [/\b(whoever|anew|thereby|hence|lest)\b/i, 'who, again, so'],
  [/\b(is|are) none\b/i, 'is not a …'],
  [/, for (it|they|its|their|the|there)\b/i, 'because'],
  [/\b(do|does) so too\b/i, 'the verb again'],
  [/\bwhat (is|are|was) (no|not)\b/i, 'a … that is not'],
];

/** Prose of a file: lines with their numbers. */
interface Line {
  readonly where: string;
  readonly text: string;
}

function linesOf(path: string, text: string): Line[] {
  return text.split('\n').map((line, i) => ({ where: `${path}:${i + 1}`, text: line }));
}

/** Pages that list wrong words, are generated from code, or are in another language. */
const OTHER_PAGES = /^(words\.md|reference\/(settings\.md|programs\/.*)|zh\/.*)$/;

function documents(): Line[] {
  const pages = readdirSync(join(ROOT, 'docs'), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.md') && !OTHER_PAGES.test(name))
    .map((name) => `docs/${name}`);
  const paths = ['README.md', 'CONTRIBUTING.md', 'CHANGELOG.md', ...pages];
  return paths.flatMap((path) => linesOf(path, readFileSync(join(ROOT, path), 'utf8')));
}

function notebookTexts(): Line[] {
  return readdirSync(join(ROOT, 'notebooks'))
    .filter((name) => name.endsWith('.ipynb') && !name.endsWith('.zh.ipynb')) // these words are English
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
  return [...readSources('src', 'kernel', 'site/planner', 'test')]
    .flatMap(([path, text]) => linesOf(path, text))
    .filter(({ text }) => /^\s*(\/\*|\*|\/\/)|\s\/\/ /.test(text));
}

/** Titles of tests and suites that are written out as one text. */
function titles(): Line[] {
  const call = /(?:\btest|\bdescribe|\bit|\beach)\(\s*(["'`])((?:\\.|(?!\1)[^\\])*)\1/g;
  return [...readSources('test')].flatMap(([path, text]) =>
    [...text.matchAll(call)].map((match) => {
      const line = text.slice(0, match.index).split('\n').length;
      return { where: `${path}:${line}`, text: match[2] ?? '' };
    }),
  );
}

function wrongWords(lines: readonly Line[], wrong = WRONG): string[] {
  return lines.flatMap(({ where, text }) =>
    wrong.flatMap(([pattern, instead]) => {
      const word = pattern.exec(text)?.[0];
      return word === undefined ? [] : [`${where}: "${word}"; write: ${instead}`];
    }),
  );
}

for (const [name, lines] of Object.entries({ documents, notebooks: notebookTexts, comments })) {
  test(`${name} use the words of docs/words.md`, () => assert.deepEqual(wrongWords(lines()), []));
}

test('titles of tests use the words of docs/words.md', () => {
  assert.ok(titles().length > 1000);
  assert.deepEqual(wrongWords(titles(), WRONG_IN_TITLES), []);
});

test('a wrong word is found and named with its line', () => {
  assert.deepEqual(wrongWords(linesOf('a.md', 'Right.\nIt is dearer.')), [
    'a.md:2: "dearer"; write: more expensive',
  ]);
  assert.deepEqual(wrongWords(linesOf('a.md', 'There are so many that a page is full.')), []);
  assert.deepEqual(wrongWords(linesOf('a.md', 'It holds 8 bytes a parameter, and goes on.')), [
    'a.md:1: "goes on"; write: continue',
    'a.md:1: "bytes a parameter"; write: per',
  ]);
});
