import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { test } from 'node:test';
import { translationProblems } from '../support/translation';
import { ROOT, readFiles } from './sources';

const read = (path: string): string => readFileSync(join(ROOT, path), 'utf8');
const PAGES = new Map([...readFiles(['docs/zh'], '.md'), ['README.zh.md', read('README.zh.md')] as const]);

/** A page's line that names its English source. */
const SOURCE = /^英文原文：\[[^\]]+\]\(([^)]+)\)/m;

const LINK = /\]\((?!https?:|#)([^)\s#]+)(#[^)\s]*)?\)/g;

/** The English source of each Chinese page, as paths in the repository. */
const SOURCES = new Map(
  [...PAGES].map(([path, text]) => [path, join(dirname(path), SOURCE.exec(text)?.[1] ?? 'missing')]),
);

/** Replaces the targets of links by paths in the repository, and Chinese files by their English sources. */
function resolved(path: string, text: string): string {
  return text.replaceAll(LINK, (_, target: string) => {
    const file = join(dirname(path), target).replace('.zh.ipynb', '.ipynb');
    return `](${SOURCES.get(file) ?? file})`;
  });
}

/** Pages that are translated sentence by sentence: the glossary, the table of notebooks and the page on mirrors are written anew. */
const TRANSLATED = [...SOURCES].filter(([path]) => !/(words|tutorial|install)\.md$/.test(path));

test('each Chinese page names its English source', () => {
  assert.deepEqual([...SOURCES.values()].sort(), [
    'README.md',
    'docs/how-to/exercises.md',
    'docs/how-to/install.md',
    'docs/how-to/troubleshooting.md',
    'docs/index.md',
    'docs/tutorial/index.md',
    'docs/tutorial/lesson.md',
    'docs/words.md',
  ]);
});

test('a Chinese page has the code, links and numbers of its English source', () => {
  assert.equal(TRANSLATED.length, 5);
  for (const [path, source] of TRANSLATED) {
    const problems = translationProblems(
      resolved(source, read(source)),
      resolved(path, read(path).replace(SOURCE, '')),
    );
    // A Chinese page may add what its readers need, such as mirrors of package registries.
    assert.deepEqual(
      problems.filter((why) => !/not in the source|without a source/.test(why)),
      [],
      path,
    );
  }
});

test('the Chinese glossary has every term of the English one', () => {
  const termsOf = (page: string): string[] =>
    [...page.matchAll(/^\| ([^|]+?) \|/gm)].flatMap(([, terms = '']) => terms.split(', '));
  const english = read('docs/words.md');
  const glossary = termsOf(english.slice(english.indexOf('## Glossary')));
  assert.ok(glossary.length > 60);
  const chinese = new Set(termsOf(PAGES.get('docs/zh/words.md') ?? ''));
  assert.deepEqual(
    glossary.filter((term) => term !== 'word' && !/^-+$/.test(term) && !chinese.has(term)),
    [],
  );
});

test('the Chinese tutorial has the title of each Chinese notebook, in order', () => {
  const rows = [...(PAGES.get('docs/zh/tutorial.md') ?? '').matchAll(/^\| \[\d+\]\(([^)]+)\) \| (.+) \|$/gm)];
  const notebooks = [...readFiles(['notebooks'], '.zh.ipynb')].sort(([a], [b]) => a.localeCompare(b));
  assert.deepEqual(
    rows.map(([, link = '', title]) => [basename(link), `# ${title}`]),
    notebooks.map(([path, text]) => {
      const { cells } = JSON.parse(text) as { cells: { source: string | string[] }[] }; // written by notebookText
      return [basename(path), [cells[0]?.source ?? ''].flat().join('').split('\n')[0]];
    }),
  );
});
