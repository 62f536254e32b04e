import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { ROOT, readFiles } from './sources';

/** A link of Markdown to a file of the repository. */
const LINK = /\]\((?!https?:|mailto:|#)([^)#\s]+)(?:#[^)]*)?\)/g;

test('every link of pages and notebooks to a file of the repository has its file', () => {
  const pages = [
    readFiles(['docs', 'notebooks', 'src', 'kernel', '.github'], '.md'),
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

/** A link of Markdown to a heading: of the same page, or of another page. */
const ANCHOR = /\]\((?!https?:|mailto:)([^)#\s]*\.md)?#([^)\s]+)\)/g;

test('every link of a page to a heading has its heading', () => {
  const pages = new Map([...readFiles(['docs', 'src', 'kernel'], '.md'), ...rootPages()]);
  const headings = new Map([...pages].map(([path, text]) => [path, anchorsOf(text)]));
  const dead = [...pages].flatMap(([path, text]) =>
    [...text.matchAll(ANCHOR)]
      .filter(([, target, anchor = '']) => {
        const to = target === undefined ? path : join(dirname(path), target);
        return headings.get(to)?.has(anchor) !== true;
      })
      .map(([link]) => `${path}: ${link}`),
  );
  assert.deepEqual(dead, []);
});

/** The anchors that GitHub and the site make of a page's headings. */
function anchorsOf(text: string): ReadonlySet<string> {
  const prose = text.replaceAll(/^```[\s\S]*?^```/gm, '');
  const words = [...prose.matchAll(/^#+ (.*)$/gm)].map(([, heading = '']) => heading);
  return new Set(
    words.map((heading) =>
      heading
        .replaceAll(/[`*]|\]\([^)]*\)/g, '')
        .trim()
        .toLowerCase()
        .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
        .replaceAll(/\s/g, '-'),
    ),
  );
}

function rootPages(): ReadonlyMap<string, string> {
  const names = readdirSync(ROOT).filter((name) => name.endsWith('.md') || name === 'llms.txt');
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
  const code = ['src', 'kernel', 'site/planner', 'test'].flatMap((folder) => [...readFiles([folder], '.ts')]);
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
