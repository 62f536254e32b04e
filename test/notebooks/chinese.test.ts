import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { test } from 'node:test';
import { importScript } from '../project/scripts';
import { translationProblems } from '../support/translation';
import { type Notebook, notebookInputs, readNotebook } from './executed';

interface Pairs {
  chinesePath(english: string): string;
  englishPath(chinese: string): string;
  pairedNotebook(english: Notebook, chinese: Notebook): Notebook;
}

interface Storing {
  storeExecuted(paths: readonly string[], execute: (path: string) => Promise<number>): Promise<number>;
}

const pairs = importScript<Pairs>('notebook-pair');

/** The notebooks that have a Chinese pair: 00 to 09. */
const TRANSLATED = /^0\d-/;

test('notebooks 00 to 09 have a Chinese pair, and every Chinese notebook has an English one', async () => {
  const { chineseFiles, notebookFiles } = await notebookInputs();
  const { chinesePath, englishPath } = await pairs;
  const translated = notebookFiles().filter((path) => TRANSLATED.test(basename(path)));
  assert.equal(translated.length, 10);
  assert.deepEqual(translated.map(chinesePath), chineseFiles());
  assert.ok(chineseFiles().every((path) => existsSync(englishPath(path))));
});

test('a Chinese notebook has the cells, code and outputs of the English one, but exercises in Chinese', async (t) => {
  const { pairedNotebook, englishPath } = await pairs;
  const { notebookText } = await importScript<{ notebookText(notebook: Notebook): string }>('notebook-text');
  for (const path of (await notebookInputs()).chineseFiles()) {
    await t.test(basename(path), () => {
      const stored = readFileSync(path, 'utf8');
      const chinese = readNotebook(path);
      const paired = pairedNotebook(readNotebook(englishPath(path)), chinese);
      assert.deepEqual(chinese.cells.map(codeOf), paired.cells.map(codeOf));
      assert.ok(
        stored === notebookText(paired),
        `npm run notebooks -- ${path} copies the English notebook's code and outputs`,
      );
    });
  }
});

test('what exercises, guesses and mysteries say is in Chinese in the Chinese notebooks', async () => {
  for (const path of (await notebookInputs()).chineseFiles()) {
    const said = readNotebook(path).cells.flatMap(({ source, outputs = [] }) =>
      /\bsl\.(?:check|guess)\(|\.solve\(/.test([source].flat().join(''))
        ? outputs.flatMap(({ data }) => [data?.['text/plain'] ?? []].flat().join(''))
        : [],
    );
    assert.ok(said.length >= 2, basename(path));
    assert.deepEqual(
      said.filter((text) => !/\p{Script=Han}/u.test(text)),
      [],
      basename(path),
    );
  }
});

test('each text cell of a Chinese notebook has the numbers, code and links of the English cell', async () => {
  const { englishPath } = await pairs;
  for (const path of (await notebookInputs()).chineseFiles()) {
    const english = new Map(readNotebook(englishPath(path)).cells.map((cell) => [cell.id, textOf(cell)]));
    const problems = readNotebook(path)
      .cells.filter(({ cell_type }) => cell_type === 'markdown')
      .flatMap((cell) =>
        translationProblems(english.get(cell.id) ?? '', textOf(cell)).map((why) => `${cell.id}: ${why}`),
      );
    assert.deepEqual(problems, [], basename(path));
  }
});

test('a changed number, code span, link and an untranslated cell are found', () => {
  const english = 'Four ranks send 1,024 bytes of `x` ([file](a.ts)).';
  assert.deepEqual(translationProblems(english, '4 个 rank 发送 1024 字节的 `x`（[文件](a.ts)）。'), []);
  assert.deepEqual(translationProblems(english, '五个 rank 发送 1025 字节的 `y`（[文件](b.ts)）。'), [
    'number: 1024',
    'number without a source: 1025',
    'code not in the translation: x',
    'code not in the source: y',
    'links not in the translation: a.ts',
    'links not in the source: b.ts',
  ]);
  assert.deepEqual(translationProblems('Two ranks.', 'Two ranks.'), ['not translated: Two ranks.']);
});

test('a cell that is not translated, and a cell that was removed, follow the English notebook', async () => {
  const { pairedNotebook } = await pairs;
  const cell = (id: string, source: string) => ({ cell_type: 'markdown', id, source }) as const;
  const code = { cell_type: 'code', id: 'c', source: '1', outputs: [] } as const;
  const english = { cells: [cell('a', 'one'), code, cell('b', 'two')] };
  const chinese = { cells: [cell('old', '旧'), { ...code, source: '2' }, cell('a', '一')] };
  assert.deepEqual(pairedNotebook(english, chinese), { cells: [cell('a', '一'), code, cell('b', 'two')] });
});

test('a notebook that was executed is copied to its Chinese pair, whose texts stay', async (context) => {
  const { storeExecuted } = await importScript<Storing>('store-executed');
  const folder = mkdtempSync(join(tmpdir(), 'shardlab-pair-'));
  context.after(() => rmSync(folder, { recursive: true, force: true }));
  const [english, chinese] = ['a.ipynb', 'a.zh.ipynb'].map((name) => join(folder, name)) as [string, string];
  const write = (path: string, text: string, output: string): void => {
    const outputs = [{ output_type: 'stream', text: output }];
    const cells = [
      { cell_type: 'markdown', id: 'a', source: text },
      { cell_type: 'code', id: 'b', source: '1', outputs },
    ];
    writeFileSync(path, JSON.stringify({ cells, metadata: {} }));
  };
  write(english, 'one', 'old');
  write(chinese, '一', 'old');
  const execute = async (path: string): Promise<number> => {
    write(path, 'one', 'new');
    return 0;
  };
  assert.equal(await storeExecuted([english], execute), 0);
  const [text, code] = readNotebook(chinese).cells;
  assert.equal(text?.source, '一');
  assert.deepEqual(code, readNotebook(english).cells[1]);
  assert.match(JSON.stringify(code), /"new"/);
});

type Cell = Notebook['cells'][number];

const textOf = ({ source }: Cell): string => [source].flat().join('');

/** A cell's identity and code; texts of Markdown cells differ between the languages. */
function codeOf(cell: Cell): readonly unknown[] {
  return cell.cell_type === 'code' ? [cell.id, textOf(cell)] : [cell.id];
}
