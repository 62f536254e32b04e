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

/** A file of this project, as comments, messages and pages name it: `figure.ts`, `sharding/fsdp/unit.ts`. */
const FILE = /(?<![\w./@'"<{}$*-])(?:[\w-]+\/)*[a-z][\w-]*\.ts\b(?!x)/g;

/** Files of users in examples, and of tfjs. */
const ELSEWHERE = /^(model|data|cells|helpers|my-\w+|backend_wasm)\.ts$/;

/** Pages that name files of earlier versions, and files that a reader may add. */
const PAST_OR_FUTURE = new Set(['CHANGELOG.md', 'CONTRIBUTING.md']);

test('every file of src, kernel, site and test that a comment, a message or a page names is there', () => {
  const code = ['src', 'kernel', 'site', 'test'].flatMap((folder) => [...readFiles([folder], '.ts')]);
  const files = code.map(([path]) => `/${path}`);
  const pages = [...readFiles(['docs', 'src', 'kernel'], '.md'), ...rootPages()];
  const dead = [...code.filter(([path]) => !path.startsWith('test/')), ...pages]
    .filter(([path]) => !PAST_OR_FUTURE.has(path))
    .flatMap(([path, text]) =>
      [...new Set(text.match(FILE) ?? [])]
        .filter((name) => !ELSEWHERE.test(name) && !files.some((file) => file.endsWith(`/${name}`)))
        .map((name) => `${path}: ${name}`),
    );
  assert.deepEqual(dead, []);
});
