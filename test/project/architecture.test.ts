import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { FLATS, ROOMS } from './layers';
import { ROOT, readFiles, readSources } from './sources';

/** More files are too many for one reading. */
const MOST_FILES = 12;

const page = readFileSync(join(ROOT, 'docs', 'architecture.md'), 'utf8');

test('the tree of docs/architecture.md names every folder of src and kernel, and no other', () => {
  const named = treeOf(page).filter((path) => /^(src|kernel)\/.+\/$/.test(path));
  assert.deepEqual([...named].sort(), [...folders('src'), ...folders('kernel')].sort());
});

test('the folders of src, and rooms that have an order, are in the order of their imports', () => {
  const tree = treeOf(page);
  const within = (folder: string): string[] =>
    tree.flatMap((path) => {
      const [, name] = new RegExp(`^${folder}/([\\w-]+)(?:/|\\.ts)$`).exec(path) ?? [];
      return name === undefined ? [] : [name];
    });
  assert.deepEqual(
    within('src').filter((name) => !['python', 'index', 'rank'].includes(name)),
    FLATS,
  );
  for (const [folder, rooms] of Object.entries(ROOMS)) {
    assert.deepEqual(
      within(`src/${folder}`).filter((room) => rooms.includes(room)),
      rooms.filter((room) => room !== '.'),
      folder,
    );
  }
});

test('everything in the tree exists', () => {
  const missing = treeOf(page).filter((path) => !existsSync(join(ROOT, path)));
  assert.deepEqual(missing, []);
});

test(`each story names at most ${MOST_FILES} files, in reading order, and each of them exists`, () => {
  const stories = storiesOf(page);
  assert.deepEqual([...stories.keys()], ['A cell', 'A step of FSDP', 'A config', 'A plan', 'A checkpoint']);
  for (const [title, steps] of stories) {
    assert.ok(steps.length > 0 && steps.length <= MOST_FILES, `${title}: ${steps.length} files`);
    assert.deepEqual(
      steps.map(({ number }) => number),
      steps.map((_, i) => i + 1),
      title,
    );
    const missing = steps.filter(({ file }) => !existsSync(join(ROOT, file))).map(({ file }) => file);
    assert.deepEqual(missing, [], title);
  }
});

test('every file and folder of the repository that the page names exists', () => {
  const named = [...page.matchAll(/`((?:src|kernel|test|docs|scripts)\/[\w./-]+)`/g)].map(
    ([, path = '']) => path,
  );
  assert.ok(named.length > 50);
  const missing = named.filter((path) => ![path, `${path}.ts`].some((each) => existsSync(join(ROOT, each))));
  assert.deepEqual(missing, []);
});

test('every note that the page names is in the sources', () => {
  const sources = [readSources('src', 'kernel'), readFiles(['scripts'], '.mjs')]
    .flatMap((files) => [...files.values()])
    .join('\n');
  const notes = [...page.matchAll(/\[Note: ([^\]]+)\]/g)].map(([, title = '']) => title);
  const missing = notes.filter((title) => !sources.includes(`* [Note: ${title}] `));
  assert.deepEqual(missing, []);
});

test('the naive forms have at most 120 lines each', () => {
  const long = [...readSources('src/sharding/naive')].filter(
    ([, text]) => text.trimEnd().split('\n').length > 120,
  );
  assert.deepEqual(
    long.map(([path]) => path),
    [],
  );
});

/** Paths of the tree, which is the page's block of lines that begin with `docs/`; two spaces per level. */
function treeOf(text: string): string[] {
  const [, block = ''] = /^```\n(docs\/ [\s\S]*?)^```$/m.exec(text) ?? [];
  const parents: string[] = [];
  return block
    .trimEnd()
    .split('\n')
    .map((line) => {
      const [, indent = '', name = ''] = /^( *)(\S+)/.exec(line) ?? [];
      parents.length = indent.length / 2;
      parents.push(name);
      return parents.join('');
    });
}

/** The numbered files of each story, by the story's title. */
function storiesOf(text: string): Map<string, readonly { readonly number: number; readonly file: string }[]> {
  const [, stories = ''] = /^## Five stories$([\s\S]*?)^## /m.exec(text) ?? [];
  return new Map(
    stories
      .split(/^### /m)
      .slice(1)
      .map((story) => [
        story.split('\n')[0] ?? '',
        [...story.matchAll(/^\| (\d+) \| `([^`]+)` \|/gm)].map(([, number, file = '']) => ({
          number: Number(number),
          file,
        })),
      ]),
  );
}

/** Folders below a folder that a reader may open: not those of a kernel's assembly, and not a room per subcommand, program or document. */
function folders(top: string): string[] {
  const below = readdirSync(join(ROOT, top), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map((entry) => `${join(entry.parentPath, entry.name).slice(ROOT.length + 1)}/`);
  return below.filter(
    (path) =>
      !/^src\/((cli|python|extras)\/.|claims\/(?!figures|notebook).)|\/assembly\/|__pycache__/.test(path),
  );
}
