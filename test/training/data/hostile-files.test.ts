import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  closeSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { crc32 } from 'node:zlib';
import { ShardlabError } from '../../../src/core/errors';
import { seeded } from '../../../src/core/random';
import { TimeLimit } from '../../../src/core/time-limit';
import { findFiles } from '../../../src/training/data/files/find-files';
import { imageSizeOf, readImage } from '../../../src/training/data/files/image';
import { instructionRecords } from '../../../src/training/data/files/instruction-records';
import { ParquetFile } from '../../../src/training/data/files/parquet';
import { openParquet } from '../../../src/training/data/files/parquet-reader';
import { type RecordFormat, recordsOf } from '../../../src/training/data/files/records';
import { chatTemplateOf } from '../../../src/training/data/prepare/instructions';
import { textCodecOf } from '../../../src/training/data/prepare/tokenizer';
import { dataFile } from './data-reference';
import { levels, parquetBytes, plainText, type WrittenParquet } from './parquet-bytes';

const folder = mkdtempSync(join(tmpdir(), 'hostile-'));
after(() => rmSync(folder, { recursive: true, force: true }));

const MESSAGES = [{ role: 'user', content: 'hello' }] as const;
const SECONDS = 0.3;

async function rendered(text: string, seconds = SECONDS): Promise<string> {
  const file = join(folder, 'template.jinja');
  writeFileSync(file, text);
  const data = { chatTemplate: file, tokenizer: undefined };
  return (await chatTemplateOf(data, folder, new TimeLimit(seconds))).render([...MESSAGES], false);
}

/** Loops that would fill the memory, or never end, with the reason for which they end. */
const TEMPLATES: Readonly<Record<string, readonly [string, RegExp]>> = {
  'a range of a million million': [
    '{% for i in range(1000000000000) %}x{% endfor %}',
    /range\(\) of 1000000000000 numbers; the most is 100000/,
  ],
  'a range that counts down without end': [
    '{{ range(0, -1000000000000, -1)|length }}',
    /of 1000000000000 numbers/,
  ],
  'a range of step 0': ['{{ range(0, 5, 0) }}', /step must not be zero/],
  'ranges within a range': [
    '{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}',
    /took longer than \d+ s and was ended; shorten its loops/,
  ],
  'a text that doubles': [
    '{% set ns = namespace(x="abcd") %}{% for i in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor %}{{ ns.x }}',
    /fails: Invalid string length/,
  ],
  'brackets within brackets': [`{{ ${'('.repeat(100_000)}1${')'.repeat(100_000)} }}`, /fails/],
  'a macro that calls itself': [
    '{% macro f(x) %}{{ self.f(x) }}{{ f(x) }}{% endmacro %}{{ f(1) }}',
    /fails|took longer/,
  ],
};

for (const [name, [text, message]] of Object.entries(TEMPLATES)) {
  test(`a chat template with ${name} is a typed error, and not the end of the process`, async () => {
    await assert.rejects(rendered(text), { code: 'CONFIG', message });
  });
}

test('ranges that templates use count as in Python', async () => {
  assert.equal(await rendered('{% for i in range(3) %}{{ i }}{% endfor %}', 60), '012');
  assert.equal(await rendered('{% for i in range(5, 0, -2) %}{{ i }}{% endfor %}', 60), '531');
  assert.equal(await rendered('{{ range(100000)|length }}{{ range(3, 1)|length }}', 60), '1000000');
  const inMacro = '{% macro f(n) %}{% for i in range(n) %}{{ i }}{% endfor %}{% endmacro %}{{ f(4) }}';
  assert.equal(await rendered(inMacro, 60), '0123');
});

/** Writes a tokenizer whose words are found by a regular expression. */
function tokenizerWith(pattern: string, place: 'pre_tokenizer' | 'normalizer'): string {
  const json = JSON.parse(readFileSync(dataFile('tokenizer.json'), 'utf8'));
  const rule =
    place === 'normalizer'
      ? { type: 'Replace', pattern: { Regex: pattern }, content: 'x' }
      : { type: 'Split', pattern: { Regex: pattern }, behavior: 'Isolated', invert: false };
  const file = join(folder, 'tokenizer.json');
  writeFileSync(file, JSON.stringify({ ...json, [place]: rule }));
  return file;
}

for (const place of ['pre_tokenizer', 'normalizer'] as const) {
  for (const pattern of ['^(a+)+$', '(a|a)*b', '(.*a){25}$']) {
    test(`a tokenizer whose ${place} backtracks without end (${pattern}) is a typed error`, async () => {
      const tokenizer = tokenizerWith(pattern, place);
      const codec = await textCodecOf({ tokenizer, eosToken: null }, folder, new TimeLimit(SECONDS));
      assert.throws(() => codec.encode(`${'a'.repeat(60)}!`), {
        code: 'CONFIG',
        message: /tokenizer\.json took longer than \d+ s and was ended; one of its regular expressions/,
      });
    });
  }
}

test('a token with an id that is no number of a token is named, before texts become other ids', async () => {
  const json = JSON.parse(readFileSync(dataFile('tokenizer.json'), 'utf8'));
  const tokens = Object.keys(json.model.vocab);
  for (const id of [-1, 0.5, 2 ** 32 - 2, 'x', null]) {
    const file = join(folder, 'ids.json');
    const vocab = Object.fromEntries(tokens.map((token, i) => [token, i === 300 ? id : i]));
    writeFileSync(file, JSON.stringify({ ...json, added_tokens: [], model: { ...json.model, vocab } }));
    const codec = textCodecOf({ tokenizer: file, eosToken: null }, folder);
    await assert.rejects(codec, { code: 'CONFIG', message: /ids\.json has the id \S+ for the token "/ });
  }
});

test('work within limited work is named when the limit ends it, and the next work runs', () => {
  const limit = new TimeLimit(SECONDS);
  const words = (subject: string) => ({ subject, advice: 'change it', numCharacters: 0 });
  const endless = (): never => {
    for (;;);
  };
  assert.throws(() => limit.run(words('outer'), () => limit.run(words('inner'), endless)), {
    message: /^inner took longer/,
  });
  assert.equal(
    limit.run(words('next'), () => limit.run(words('deep'), () => 3)),
    3,
  );
  assert.throws(() => limit.run(words('error'), () => JSON.parse('{')), SyntaxError);
});

/** Returns the beginning of a PNG with a size, as a file of a few bytes may have it. */
function pngOf(rows: number, columns: number): Buffer {
  const header = Buffer.alloc(17);
  header.write('IHDR', 0, 'latin1');
  header.writeUInt32BE(columns, 4);
  header.writeUInt32BE(rows, 8);
  header.set([1, 0, 0, 0, 0], 12);
  const sum = Buffer.alloc(4);
  sum.writeUInt32BE(crc32(header));
  return Buffer.concat([Buffer.from('89504e470d0a1a0a0000000d', 'hex'), header, sum]);
}

async function readAll(file: string, format: RecordFormat, ...columns: string[]): Promise<void> {
  for await (const _ of recordsOf(file, format, columns, () => undefined));
}

test('a row without end is named by its line before it fills the memory', async () => {
  const quoted = join(folder, 'quoted.csv');
  writeFileSync(quoted, `text\none\n"two${'x\n'.repeat(5_000_000)}`);
  await assert.rejects(readAll(quoted, 'csv', 'text'), {
    code: 'CONFIG',
    message:
      /quoted\.csv, line 3: a quote begins in this row and has no end within 8388608 characters; close it$/,
  });
  const wide = join(folder, 'wide.csv');
  writeFileSync(wide, `text\n${','.repeat(9_000_000)}`);
  await assert.rejects(readAll(wide, 'csv', 'text'), { message: /line 2: this row has more than 8388608/ });
  const line = join(folder, 'line.jsonl');
  const file = openSync(line, 'w');
  for (let i = 0; i < 129; i++) writeSync(file, Buffer.alloc(2 ** 20, 'a'));
  closeSync(file);
  await assert.rejects(readAll(line, 'jsonl', 'text'), {
    code: 'CONFIG',
    message: /line 1 has more than 134217728 characters; write one row per line/,
  });
});

test('a line of quotes that have no end is read once, and an integer of any length stays as it is written', async () => {
  const line = join(folder, 'quotes.jsonl');
  writeFileSync(line, `1234567890123456${'"\\'.repeat(200_000)}`);
  const began = process.cpuUsage();
  await assert.rejects(readAll(line, 'jsonl', 'text'), {
    code: 'CONFIG',
    message: /quotes\.jsonl, line 1 is not JSON/,
  });
  assert.ok(process.cpuUsage(began).user < 2e6);
  const long = '9'.repeat(400);
  writeFileSync(line, `{"text": ${long}}`);
  for await (const { values } of recordsOf(line, 'jsonl', ['text'], () => undefined))
    assert.equal(values.text, long);
});

test('a column that only every object inherits is missing, and a list of instructions must be UTF-8', async () => {
  const line = join(folder, 'inherited.jsonl');
  writeFileSync(line, '{"text": "a"}');
  await assert.rejects(readAll(line, 'jsonl', 'constructor'), {
    code: 'CONFIG',
    message: /no column 'constructor'/,
  });
  const list = join(folder, 'latin.json');
  writeFileSync(list, Buffer.from('[{"messages": [{"role": "user", "content": "caf\xe9"}]}]', 'latin1'));
  const read = async () => {
    for await (const _ of instructionRecords(
      { files: [list], format: 'jsonl', folder: null },
      () => undefined,
    ));
  };
  await assert.rejects(read, { code: 'CONFIG', message: /not UTF-8 in line 1; save it as UTF-8/ });
});

test('a Parquet file with damage in several columns is one error, and none that nobody catches', async (context) => {
  const bytes = readFileSync(dataFile('rows-gzip.parquet'));
  const damaged = join(folder, 'damaged.parquet');
  const stray: unknown[] = [];
  const note = (error: unknown): number => stray.push(error);
  process.on('unhandledRejection', note);
  context.after(() => process.off('unhandledRejection', note));
  const random = seeded(33);
  for (let i = 0; i < 200; i++) {
    const copy = Buffer.from(bytes);
    for (let k = 0; k < 4; k++) copy[random.integer(copy.length)] = random.integer(256);
    writeFileSync(damaged, copy);
    const columns = ['text', 'pixels', 'age', 'word'];
    // Most files are read in this process, because a process for each would take long.
    const work = i % 50 === 0 ? readAll(damaged, 'parquet', ...columns) : rowsHere(damaged, columns);
    await work.catch((error: unknown) => {
      assert.ok(i % 50 !== 0 || (error instanceof ShardlabError && error.code === 'CONFIG'), String(error));
    });
  }
  await new Promise(setImmediate);
  assert.deepEqual(stray, []);
});

async function rowsHere(file: string, columns: readonly string[]): Promise<void> {
  for await (const _ of (await openParquet(file)).rows(columns));
}

function parquetFile(name: string, written: WrittenParquet): string {
  const file = join(folder, `${name}.parquet`);
  writeFileSync(file, parquetBytes(written));
  return file;
}

/** Parquet files of 200 bytes that say that they have very many values. */
const BOMBS: Readonly<Record<string, WrittenParquet>> = {
  'a run of 2^30 levels': { numRows: 9, isOptional: true, page: [...levels(2 ** 30, 1), ...plainText('a')] },
  '2^30 rows of one word': { numRows: 2 ** 30, encoding: 'dictionary', page: [0] },
};

for (const [name, written] of Object.entries(BOMBS)) {
  test(`a Parquet file with ${name} is a typed error, and not the end of the process`, async () => {
    const parquet = await ParquetFile.open(parquetFile('bomb', written), { seconds: 5, megabytes: 64 });
    const read = async () => {
      for await (const _ of parquet.rows(['text']));
    };
    // On a busy machine the time ends before the memory does.
    const message =
      /a part of its rows takes (more than 64 MiB of memory|longer than 5 s)\); it is damaged, or has/;
    await assert.rejects(read, { code: 'CONFIG', message });
    parquet.close();
    await assert.rejects(read, { code: 'CONFIG' });
  });
}

test('a Parquet file whose row groups have another number of rows than the file is refused', async () => {
  const two = [...plainText('a'), ...plainText('b')];
  const rows: string[] = [];
  const whole = parquetFile('whole', { numRows: 2, page: two });
  for await (const { values } of recordsOf(whole, 'parquet', ['text'], () => undefined))
    rows.push(String(values.text));
  assert.deepEqual(rows, ['a', 'b']);
  for (const [numRows, numRowsOfFile] of [
    [2, 5],
    [-2, -2],
    [2, 0],
  ] as const) {
    const file = parquetFile('numbers', { numRows, numRowsOfFile, page: two });
    const message = new RegExp(`it says ${numRowsOfFile} rows, but its row groups have ${numRows}`);
    await assert.rejects(readAll(file, 'parquet', 'text'), { code: 'CONFIG', message });
  }
});

/** Settings that name a file, and the message about a file of which no byte may be read. */
const NAMED: readonly (readonly [string, (path: string) => Promise<unknown>, RegExp])[] = [
  ['data', async (path) => findFiles({ paths: path, baseDir: folder, format: undefined }), /neither a file/],
  [
    'data.tokenizer',
    (tokenizer) => textCodecOf({ tokenizer }, folder),
    /cannot be read \(.* is a (FIFO|device)/,
  ],
  [
    'data.chatTemplate',
    async (chatTemplate) => chatTemplateOf({ chatTemplate, tokenizer: undefined }, folder),
    /cannot be read \(.* is a (FIFO|device)/,
  ],
];

for (const [setting, open, refusal] of NAMED) {
  test(`${setting} reads no FIFO and no device, and names paths that no file can have`, async () => {
    const place = mkdtempSync(join(folder, 'place-'));
    const at = (name: string): string => join(place, name);
    execFileSync('mkfifo', [at('fifo')]);
    symlinkSync('/dev/zero', at('zero'));
    symlinkSync('loop', at('loop'));
    writeFileSync(at('file'), '');
    for (const name of ['fifo', 'zero'])
      await assert.rejects(open(at(name)), { code: 'CONFIG', message: refusal });
    for (const name of ['loop', 'gone', 'file/x', 'a\0b', 'n'.repeat(300)]) {
      const expected = { code: 'CONFIG', message: new RegExp(`^${setting}: there is no file `) };
      await assert.rejects(open(at(name)), expected, name.slice(0, 9));
    }
  });
}

test('a folder with a link that leads to itself is read without the link', () => {
  const place = mkdtempSync(join(folder, 'links-'));
  symlinkSync('loop.txt', join(place, 'loop.txt'));
  writeFileSync(join(place, 'a.txt'), 'text');
  const { files } = findFiles({ paths: place, baseDir: folder, format: undefined });
  assert.deepEqual(files, [join(place, 'a.txt')]);
});

test('a picture of more pixels than Pillow decodes, or in CMYK, is refused by its header', () => {
  for (const [rows, columns] of [
    [20_000, 20_000],
    [1, 2 ** 31 - 1],
    [2 ** 32 - 1, 2 ** 32 - 1],
  ] as const) {
    const message = new RegExp(`big.png has ${rows} x ${columns} pixels, but at most 89478485 pixels`);
    assert.throws(() => imageSizeOf('big.png', pngOf(rows, columns)), { code: 'CONFIG', message });
  }
  assert.deepEqual(imageSizeOf('fits.png', pngOf(9000, 9000)), [9000, 9000]);
  const jpeg = Buffer.from('ffd8ffc00011082710ffff03', 'hex');
  assert.throws(() => imageSizeOf('big.jpg', jpeg), { code: 'CONFIG', message: /10000 x 65535 pixels/ });
  const print = Buffer.from('ffd8ffc0001408000400040401', 'hex');
  assert.throws(() => imageSizeOf('print.jpg', print), {
    code: 'CONFIG',
    message: /print\.jpg has the colours of print \(CMYK\)/,
  });
  const file = join(folder, 'big.png');
  writeFileSync(file, pngOf(20_000, 20_000));
  assert.throws(() => readImage(file, [4, 4], new Float32Array(48)), { code: 'CONFIG' });
});
