import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { ROOT, readFiles } from './sources';

/** A link of Markdown to a file of the repository. */
const LINK = /\]\((?!https?:|mailto:|#)([^)#\s]+)(?:#[^)]*)?\)/g;

test('every link of pages and notebooks to a file of the repository has its file', () => {
  const pages = [
    readFiles(['docs', 'notebooks', 'src', 'kernel'], '.md'),
    readFiles(['notebooks'], '.ipynb'),
    rootPages(),
  ].flatMap((files) => [...files]);
  assert.ok(pages.length > 40);
  const dead = pages.flatMap(([path, text]) =>
    linksOf(path, text)
      .filter((link) => !existsSync(join(ROOT, dirname(path), link)))
      .map((link) => `${path}: ${link}`),
  );
  assert.deepEqual(dead, []);
});

function rootPages(): ReadonlyMap<string, string> {
  const names = readdirSync(ROOT).filter((name) => name.endsWith('.md'));
  return new Map(names.map((name) => [name, readFileSync(join(ROOT, name), 'utf8')]));
}

/** The links of a page, or of the text cells of a notebook. */
function linksOf(path: string, text: string): readonly string[] {
  const texts = path.endsWith('.ipynb') ? textCells(text) : [text];
  return texts.flatMap((each) => [...each.matchAll(LINK)].map(([, link = '']) => link));
}

function textCells(notebook: string): readonly string[] {
  const { cells } = JSON.parse(notebook) as { cells: { cell_type: string; source: string | string[] }[] };
  return cells
    .filter(({ cell_type }) => cell_type === 'markdown')
    .map(({ source }) => [source].flat().join(''));
}
