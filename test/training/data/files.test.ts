import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, test } from 'node:test';
import { findFiles } from '../../../src/training/data/files/find-files';
import { csvRows, type RecordFormat, recordsOf } from '../../../src/training/data/files/records';
import { linesOf } from '../../../src/training/data/files/text-file';
import { dataFile, dataReference } from './data-reference';

const folder = mkdtempSync(join(tmpdir(), 'shardlab-files-'));
after(() => rmSync(folder, { recursive: true, force: true }));

const ignored = (): void => undefined;

function write(name: string, content: string | Uint8Array): string {
  const path = join(folder, name);
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, content);
  return path;
}

async function all<Item>(items: AsyncIterable<Item>): Promise<Item[]> {
  const list: Item[] = [];
  for await (const item of items) list.push(item);
  return list;
}

const records = (file: string, format: RecordFormat, ...columns: string[]) =>
  all(recordsOf(file, format, columns, ignored));

test('a folder stands for the files in it and in its folders, in order, without hidden files', () => {
  for (const name of ['b.txt', 'a/c.md', 'a/b.txt', '.hidden/x.txt', '.DS_Store'])
    write(`texts/${name}`, name);
  const found = findFiles({ paths: 'texts', format: undefined, baseDir: folder });
  const texts = join(folder, 'texts');
  assert.deepEqual(found, {
    format: 'text',
    files: ['a/b.txt', 'a/c.md', 'b.txt'].map((name) => join(texts, name)),
    folder: texts,
  });
});

test('files of several formats need a format, which then chooses among them', () => {
  for (const name of ['README.md', 'a.parquet', 'b.parquet']) write(`mixed/${name}`, name);
  const query = { paths: './mixed', baseDir: folder };
  assert.throws(
    () => findFiles({ ...query, format: undefined }),
    /different formats \('text' and 'parquet'\); give format: 'parquet'/,
  );
  assert.equal(findFiles({ ...query, format: 'parquet' }).files.length, 2);
  assert.throws(() => findFiles({ ...query, format: 'csv' }), /no files of format 'csv'/);
});

test('a path that does not exist is named with the folder in which it was looked for', () => {
  const query = { paths: 'typscript', format: undefined, baseDir: folder };
  assert.throws(
    () => findFiles(query),
    new RegExp(`no file or folder typscript in ${folder}; did you mean 'typescript'`),
  );
  assert.throws(
    () => findFiles({ ...query, paths: './mine.txt' }),
    /built-in data are 'typescript' and 'synthetic'/,
  );
});

test('lines end with either kind of line end, and the last line may have none', async () => {
  const lines = await all(linesOf(write('lines.txt', '\ufeffone\r\ntwo\n\nfour'), ignored));
  assert.deepEqual(
    lines.map(({ text }) => text),
    ['one', 'two', '', 'four'],
  );
  assert.equal(lines[3]?.number, 4);
});

test('bytes that are not text are reported with their line', async () => {
  const latin = write(
    'latin.txt',
    Buffer.concat([Buffer.from('a\nb\nna'), Buffer.from([0xef]), Buffer.from('ve\n')]),
  );
  await assert.rejects(
    all(linesOf(latin, ignored)),
    /latin\.txt is not a text: it has bytes that are not UTF-8 at line 1 or soon after/,
  );
  const binary = write('binary.bin', 'a\nb\0c');
  await assert.rejects(all(linesOf(binary, ignored)), /has a zero byte at line 2 or soon after/);
});

test('cells in quotes may have separators, line ends and doubled quotes', async () => {
  const file = write('quotes.csv', 'a,b\r\n"x, ""y""\nz",2\n\n3,"4"\n,5');
  const rows = await all(csvRows(file, ignored));
  assert.deepEqual(rows, [
    { line: 1, cells: ['a', 'b'] },
    { line: 2, cells: ['x, "y"\nz', '2'] },
    { line: 5, cells: ['3', '4'] },
    { line: 6, cells: ['', '5'] },
  ]);
  await assert.rejects(
    all(csvRows(write('open.csv', 'a\n1\n"2'), ignored)),
    /open\.csv, line 3: a quote begins/,
  );
  const tabs = await records(write('tabs.tsv', 'a\tb\n1\t2,3'), 'csv', 'b');
  assert.deepEqual(tabs[0]?.values, { a: '1', b: '2,3' });
});

test('a wrong row is reported with file, line and column', async () => {
  const json = write('wrong.jsonl', '{"text":"a"}\n\n{"text":}\n');
  await assert.rejects(records(json, 'jsonl', 'text'), /wrong\.jsonl, line 3 is not JSON/);
  const array = write('array.json', '[1, 2]\n');
  await assert.rejects(
    records(array, 'jsonl', 'text'),
    /line 1 is not a JSON object; write one object per line/,
  );
  const other = write('other.jsonl', '{"content":"a","id":1}\n');
  await assert.rejects(records(other, 'jsonl', 'text'), /line 1 has no column 'text'.*content/);
  const empty = write('null.jsonl', '{"text":"a"}\n{"text":null}\n');
  await assert.rejects(records(empty, 'jsonl', 'text'), /line 2 has no value in column 'text'; fill in/);
  const short = write('short.csv', 'a,b\n1,2\n3\n');
  await assert.rejects(records(short, 'csv', 'a'), /short\.csv, line 3 has 1 cells, but the header has 2/);
  await assert.rejects(records(short, 'csv', 'c'), /line 1 \(the header\) has no column 'c'/);
});

test('rows of Parquet files equal what pyarrow wrote, with each compression', async () => {
  for (const codec of ['snappy', 'zstd', 'gzip']) {
    const file = dataFile(`rows-${codec}.parquet`);
    const rows = await records(file, 'parquet', 'text', 'pixels', 'age', 'word');
    const values = rows.map(({ values: { age, ...rest } }) => ({ ...rest, age: Number(age) }));
    assert.deepEqual(values, dataReference().rows);
    assert.equal(rows[4]?.place, `${file}, row 5`);
  }
  const file = dataFile('rows-snappy.parquet');
  await assert.rejects(records(file, 'parquet', 'words'), /no column 'words'; did you mean 'word'/);
  const broken = write('broken.parquet', 'no parquet');
  await assert.rejects(records(broken, 'parquet', 'a'), /broken\.parquet cannot be read as Parquet/);
});

test('a process loads the decoder of images only when it reads an image or draws a picture', () => {
  const program = `
    const load = (path) => require(require('node:path').join(${JSON.stringify(join(__dirname, '..', '..', '..', 'src'))}, path));
    const { readImage } = load('training/data/files/image');
    const { toPng } = load('figures/static/png');
    const has = () => Object.keys(require.cache).some((file) => file.includes('resvg'));
    const before = has();
    toPng('<svg xmlns="http://www.w3.org/2000/svg" width="1" height="1"/>');
    console.log(typeof readImage, before, has());`;
  const said = execFileSync(process.execPath, ['-e', program], { encoding: 'utf8' });
  assert.equal(said.trim(), 'function false true');
});
