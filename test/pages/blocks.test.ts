import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { ROOT } from '../project/sources';
import { allBlocks, blocksOf, reasonOf } from './blocks';
import { fateOf, PAGES } from './table';

const BLOCKS = allBlocks();

/** Commands of npm that are no scripts of package.json. */
const BUILT_IN: readonly string[] = ['ci', 'config', 'install', 'login', 'pack', 'publish', 'start', 'test'];

test('every block of code in README.md, CONTRIBUTING.md and docs runs in a test, or says why not', () => {
  assert.ok(BLOCKS.length > 50, `only ${BLOCKS.length}`);
  const forgotten = BLOCKS.filter((block) => fateOf(block) === 'forgotten');
  assert.deepEqual(
    forgotten.map(({ page, line, code }) => `${page}:${line} ${code.split('\n')[0]}`),
    [],
    'run it (test/pages/table.ts), or begin it with a comment: Not run in tests: REASON',
  );
});

test('every row of the table of pages is of a block, and every test that it names is there', () => {
  for (const [page, { before = {}, checkedBy = {} }] of Object.entries(PAGES)) {
    const own = BLOCKS.filter((block) => block.page === page);
    assert.ok(own.length > 0, `${page} has no block`);
    for (const text of Object.keys(before))
      assert.equal(own.filter(({ code }) => code.includes(text)).length, 1, `${page}: ${text}`);
    for (const [text, path] of Object.entries(checkedBy)) {
      assert.ok(
        own.some(({ code }) => code.includes(text)),
        `${page}: ${text}`,
      );
      assert.ok(existsSync(join(ROOT, path)), path);
    }
  }
});

test("cells that start PyTorch's ranks are in pages whose cells run with PyTorch", () => {
  const cells = BLOCKS.filter((block) => ['cell', 'torch cell'].includes(fateOf(block)));
  const pages = cells.filter(({ code }) => code.includes("engine: 'torch'")).map(({ page }) => page);
  const marked = Object.keys(PAGES).filter((page) => PAGES[page]?.torch);
  assert.deepEqual([...new Set(pages)], marked);
});

test('the commands of npm in pages are scripts of package.json', () => {
  const { scripts } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
    scripts: Readonly<Record<string, string>>;
  };
  const commands = BLOCKS.filter(({ language }) => /^(sh|bash)$/.test(language)).flatMap(
    ({ page, line, code }) =>
      [...code.matchAll(/\bnpm (run )?([\w:-]+)/g)].map(([, run, name = '']) => ({
        where: `${page}:${line} ${name}`,
        name,
        run,
      })),
  );
  assert.ok(commands.length > 10);
  const unknown = commands.filter(({ name, run }) => !(name in scripts || (!run && BUILT_IN.includes(name))));
  assert.deepEqual(
    unknown.map(({ where }) => where),
    [],
  );
});

test('blocks are found with their lines, also in lists, and a reason is only in the first line', () => {
  const page =
    '# Title\n\n```ts\nfirst();\n```\n\n- item:\n\n  ```sh\n  # Not run in tests: no GPU\n  ls\n  ```\n';
  const blocks = blocksOf('a.md', page);
  assert.deepEqual(blocks, [
    { page: 'a.md', line: 4, language: 'ts', code: 'first();\n' },
    { page: 'a.md', line: 10, language: 'sh', code: '# Not run in tests: no GPU\nls\n' },
  ]);
  assert.deepEqual(blocks.map(reasonOf), [undefined, 'no GPU']);
  assert.deepEqual(blocks.map(fateOf), ['cell', 'not run']);
  assert.equal(
    reasonOf({ page: 'a.md', line: 1, language: 'sh', code: '# 测试中不运行：改变设置\n' }),
    '改变设置',
  );
  const late = { page: 'a.md', line: 1, language: 'python', code: 'x = 1\n# Not run in tests: late\n' };
  assert.equal(fateOf(late), 'forgotten');
});
