import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, test } from 'node:test';
import { type OwnData, ownData } from '../../../src/config/settings/data';
import { parseTrainConfig, type TrainConfigInput } from '../../../src/config/train-config';
import type { RowBatch, TokenBatch } from '../../../src/training/data/batch';
import { openData, openRows, openTokens } from '../../../src/training/data/open-data';
import { prepareData } from '../../../src/training/data/prepare/prepare-data';
import { textCodecOf } from '../../../src/training/data/prepare/tokenizer';
import type { PreparedData, PreparedRows, PreparedTokens } from '../../../src/training/data/prepared';
import { dataFile, dataReference } from './data-reference';

const folder = mkdtempSync(join(tmpdir(), 'shardlab-data-'));
after(() => rmSync(folder, { recursive: true, force: true }));

let numFiles = 0;

function prepare(data: TrainConfigInput['data'], seed = 5): Promise<PreparedData> {
  const { data: parsed } = parseTrainConfig({ model: { kind: 'own' }, loss: 'function', data });
  const own = ownData(parsed);
  assert.ok(own);
  return prepareOwn(own, seed);
}

function prepareOwn(data: OwnData, seed: number): Promise<PreparedData> {
  return prepareData(data, {
    baseDir: folder,
    seed,
    fileFor: (name) => join(folder, `prepared-${++numFiles}-${name}`),
    progress: () => undefined,
  });
}

async function tokensOf(data: TrainConfigInput['data']): Promise<PreparedTokens> {
  const prepared = await prepare(data);
  assert.ok(prepared.kind === 'tokens');
  return prepared;
}

async function rowsOf(data: TrainConfigInput['data']): Promise<PreparedRows> {
  const prepared = await prepare(data);
  assert.ok(prepared.kind === 'rows');
  return prepared;
}

function write(name: string, content: string): string {
  const path = join(folder, name);
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, content);
  return path;
}

const SOLO = { batch: 1, world: 1, seed: 0 };

/** All tokens to train on, in order: the first row whole, of each other row all except the token that it shares. */
function stream(data: PreparedTokens, seq = 2): number[] {
  const { batch } = openTokens({ ...data, shuffle: false }, { ...SOLO, seq, vocab: 1e6 });
  const numRows = Math.floor((data.train.count - 1) / seq);
  return Array.from({ length: numRows }, (_, row) => [
    ...batch(0, row).tokens.slice(row === 0 ? 0 : 1),
  ]).flat();
}

test('bytes of a text are packed into rows of seq + 1 tokens, and each token is predicted once per epoch', async () => {
  write('abc.txt', 'abcdefghijk');
  const data = await tokensOf('abc.txt');
  assert.equal(Buffer.from(stream(data, 3)).toString(), 'abcdefghij');
  const source = openTokens(data, { batch: 2, world: 1, seed: 0, seq: 5, vocab: 256 });
  const rows = (batch: TokenBatch) => Buffer.from(batch.tokens).toString();
  // Two rows: each batch is an epoch, in an order of its own.
  assert.ok(['abcdeffghijk', 'fghijkabcdef'].includes(rows(source.batch(0, 0))));
  assert.deepEqual(source.batch(0, 7), source.batch(0, 7));
});

test('ranks together read each row once per epoch, at every world', async () => {
  write('long.txt', Array.from({ length: 769 }, (_, i) => String.fromCharCode(33 + (i % 90))).join(''));
  const data = await tokensOf('long.txt');
  for (const world of [1, 2, 4]) {
    const source = openTokens(data, { batch: 2, world, seed: 3, seq: 8, vocab: 256 });
    const numBatches = 96 / (2 * world);
    const firsts = Array.from({ length: world }, (_, rank) =>
      Array.from({ length: numBatches }, (_, i) => source.batch(rank, i).tokens),
    ).flat();
    const expected = openTokens(
      { ...data, shuffle: false },
      { ...SOLO, batch: 96, seq: 8, vocab: 256 },
    ).batch(0, 0).tokens;
    const sortedRows = (tokens: readonly number[]): string[] =>
      Array.from({ length: tokens.length / 9 }, (_, i) => tokens.slice(9 * i, 9 * i + 9).join()).sort();
    assert.deepEqual(sortedRows(firsts.flatMap((tokens) => [...tokens])), sortedRows([...expected]));
  }
});

test('documents are separated: bytes by a newline between them, tokens by the end token after each', async () => {
  const jsonl = write('docs.jsonl', '{"text":"ab"}\n{"text":"cd"}\n');
  assert.equal(Buffer.from(stream(await tokensOf(jsonl), 4)).toString(), 'ab\ncd');
  write('docs/1.txt', 'ab');
  write('docs/2.txt', 'cd\n');
  assert.equal(Buffer.from(stream(await tokensOf('docs'), 5)).toString(), 'ab\ncd\n');
  const tokenizer = dataFile('tokenizer.json');
  const codec = await textCodecOf({ tokenizer: tokenizer, eosToken: undefined }, folder);
  const expected = [...Array.from(codec.encode('ab')), 0, ...Array.from(codec.encode('cd')), 0];
  assert.deepEqual(stream(await tokensOf({ path: jsonl, tokenizer }), 1), expected);
  const bare = await tokensOf({ path: jsonl, tokenizer, eosToken: null });
  assert.deepEqual(
    stream(bare, 1),
    expected.filter((id) => id !== 0),
  );
  await assert.rejects(
    tokensOf({ path: jsonl, tokenizer, eosToken: '</s>' }),
    /has no token <\/s>; it has <\|endoftext\|>/,
  );
});

test("token ids equal those of Hugging Face's tokenizers, and decode to the text", async () => {
  const codec = await textCodecOf({ tokenizer: dataFile('.'), eosToken: undefined }, folder);
  assert.equal(codec.vocab, 400);
  for (const { text, ids } of dataReference().tokens) {
    assert.deepEqual(Array.from(codec.encode(text)), ids, text);
    if (!text.includes('<|')) assert.equal(codec.decode(ids), text);
  }
});

test('a long text that is tokenized in pieces has the tokens of the whole text', async () => {
  const lib = require.resolve('typescript/lib/lib.es5.d.ts');
  // Most line ends have a blank beside them, at which a cut would change the tokens.
  const lines = readFileSync(lib, 'utf8').repeat(2).split('\n');
  const text = lines.map((line, i) => (i % 50 === 0 ? `x${line}` : `  ${line}`)).join('\n');
  assert.ok(text.length > 2 ** 18);
  write('long.ts', text);
  const tokenizer = dataFile('tokenizer.json');
  const codec = await textCodecOf({ tokenizer: tokenizer, eosToken: null }, folder);
  const data = await tokensOf({ path: 'long.ts', tokenizer, eosToken: null });
  assert.deepEqual(stream(data, 1), Array.from(codec.encode(text)));
});

test('a share of a text for validation is its end, which no training row contains', async () => {
  write('numbers.txt', Array.from({ length: 100 }, (_, i) => String.fromCharCode(i + 1)).join(''));
  const data = await tokensOf({ path: 'numbers.txt', validation: 0.25 });
  assert.ok(Math.max(...stream(data, 2)) <= 75);
  for (const world of [1, 2, 3]) {
    const source = openTokens(data, { batch: 2, world, seed: 0, seq: 3, vocab: 256 });
    const { validation } = source;
    assert.ok(validation);
    assert.equal(validation.numRows, 8);
    const seen: number[] = [];
    for (let rank = 0; rank < world; rank++) {
      for (let i = 0; i < validation.numBatches; i++) {
        const { batch, counted } = validation.batch(rank, i);
        assert.equal(batch.tokens.length, Math.max(1, counted) * 4);
        for (let row = 0; row < counted; row++) seen.push(batch.tokens[row * 4] ?? 0);
      }
    }
    assert.deepEqual(
      seen.sort((a, b) => a - b),
      Array.from({ length: 8 }, (_, row) => 76 + 3 * row),
    );
  }
  write('other.txt', 'zzzz');
  const named = await tokensOf({ path: 'numbers.txt', validation: 'other.txt' });
  const { validation } = openTokens(named, { batch: 1, world: 1, seed: 0, seq: 3, vocab: 256 });
  assert.equal(Buffer.from(validation?.batch(0, 0).batch.tokens ?? []).toString(), 'zzzz');
});

test('a model of your own gets texts as inputs and targets that are one token ahead', async () => {
  write('letters.txt', 'abcdefg');
  const data = await tokensOf({ path: 'letters.txt', shuffle: false });
  const { batch, validation } = openData(data, { ...SOLO, seq: 3 });
  const ids = (text: string) => ({
    shape: [1, 3],
    dtype: 'int32',
    values: Int32Array.from(Buffer.from(text)),
  });
  assert.deepEqual(batch(0, 0), { batch: 1, x: ids('abc'), y: ids('bcd') });
  assert.equal(validation, null);
  assert.throws(() => openData(data, SOLO), /letters\.txt is a text; give the number of tokens per row/);
});

test('data that do not fit to the model are refused with what to change', async () => {
  write('short.txt', 'abc');
  const short = await tokensOf('short.txt');
  const options = { ...SOLO, seq: 8, vocab: 256 };
  assert.throws(
    () => openTokens(short, options),
    /short\.txt has 3 tokens, but a row has seq \+ 1 = 9; give more text or a smaller model\.seq/,
  );
  const tokenizer = dataFile('tokenizer.json');
  const data = await tokensOf({ path: 'abc.txt', tokenizer });
  assert.throws(
    () => openTokens(data, { ...options, seq: 1 }),
    /has 400 tokens, but the model's vocab is 256; give model\.vocab 400 or more/,
  );
  const few = await tokensOf({ path: 'abc.txt', dropLast: true });
  assert.throws(
    () => openTokens(few, { ...options, world: 4 }),
    /dropLast leaves out all rows of abc\.txt, because there are fewer rows \(1\) than ranks \(4\)/,
  );
});

test('token ids that the user gives are stored as they are', async () => {
  const tokens = Int32Array.of(5, 70_000, 3, 2, 1);
  const data = await tokensOf({ tokens });
  assert.equal(data.vocab, 70_001);
  assert.deepEqual(stream(data, 4), [...tokens]);
  await assert.rejects(
    tokensOf({ tokens: Int32Array.of(1, -2) }),
    /element 1 is -2; token ids are whole numbers/,
  );
});

/** All rows of the part to train on, in order. */
function table(data: PreparedRows): RowBatch {
  return openRows({ ...data, shuffle: false }, { ...SOLO, batch: data.train.count }).batch(0, 0);
}

test('columns become inputs and targets: numbers, lists, and words as classes', async () => {
  for (const codec of ['snappy', 'zstd']) {
    const path = dataFile(`rows-${codec}.parquet`);
    const lists = await rowsOf({ path, x: 'pixels', y: 'word' });
    assert.deepEqual(lists.classes, ['maybe', 'no', 'yes']);
    const { x, y } = table(lists);
    assert.deepEqual(x, {
      shape: [7, 2],
      dtype: 'float32',
      values: Float32Array.from(dataReference().rows.flatMap(({ pixels }) => pixels as number[])),
    });
    assert.deepEqual(y, { shape: [7], dtype: 'int32', values: Int32Array.of(1, 2, 0, 1, 2, 0, 1) });
  }
  const csv = write('people.csv', 'age,height,price\n20,1.5,1\n30,1.75,2.5\n');
  const { x, y } = table(await rowsOf({ path: csv, x: ['height', 'age'], y: 'price' }));
  assert.deepEqual(x, { shape: [2, 2], dtype: 'float32', values: Float32Array.of(1.5, 20, 1.75, 30) });
  assert.deepEqual(y, { shape: [2], dtype: 'float32', values: Float32Array.of(1, 2.5) });
});

test('a value that does not fit is reported with its row and column', async () => {
  const csv = write('wrong.csv', 'age,word\n20,yes\nold,no\n');
  await assert.rejects(
    rowsOf({ path: csv, x: 'age' }),
    /wrong\.csv, line 3: column 'age' has "old", which is not a number/,
  );
  const lists = write('lists.jsonl', '{"v":[1,2]}\n{"v":[1]}\n');
  await assert.rejects(
    rowsOf({ path: lists, x: 'v' }),
    /lists\.jsonl, line 2: column 'v' has shape \[1\], but earlier rows have \[2\]/,
  );
  const other = write('validation.csv', 'age,word\n20,perhaps\n');
  await assert.rejects(
    rowsOf({ path: write('right.csv', 'age,word\n20,yes\n'), x: 'age', y: 'word', validation: other }),
    /line 2: column 'word' has "perhaps", but the rows to train on have only yes/,
  );
});

test('numbers that float32, int32 or a number of JavaScript cannot hold are refused, and long integers in other columns are not', async () => {
  for (const value of ['1e39', '-3.5e38']) {
    const csv = write('large.csv', `a\n3.4e38\n${value}\n`);
    await assert.rejects(
      rowsOf({ path: csv, x: 'a' }),
      /large\.csv, line 3: column 'a' has .*, which is beyond the largest number of float32, 3\.4e38/,
    );
    const jsonl = write('large.jsonl', `{"a":[1]}\n{"a":[${value}]}\n`);
    await assert.rejects(
      rowsOf({ path: jsonl, x: 'a' }),
      /line 2: column 'a' has .* beyond the largest number of float32/,
    );
    await assert.rejects(
      rowsOf({ x: Float64Array.of(1, Number(value)) }),
      /data\.x: number 1 is .* beyond the largest number of float32/,
    );
  }
  await assert.rejects(
    rowsOf({ x: Uint32Array.of(0, 2 ** 31) }),
    /data\.x: number 1 is 2147483648, which is beyond the largest number of int32/,
  );
  const csv = write('long.csv', 'a,id\n1,9007199254740993\n');
  await assert.rejects(
    rowsOf({ path: csv, x: 'id' }),
    /column 'id' has "9007199254740993", which would be rounded to 9007199254740992/,
  );
  const jsonl = write(
    'long.jsonl',
    '{"a":1,"id":-9007199254740993,"text":"\\"12345678901234567","b":[1e20,1152921504606846976]}\n',
  );
  await assert.rejects(
    rowsOf({ path: jsonl, x: 'id' }),
    /column 'id' has "-9007199254740993", which would be rounded/,
  );
  assert.deepEqual([...table(await rowsOf({ path: csv, x: 'a' })).x.values], [1]);
  assert.deepEqual([...table(await rowsOf({ path: jsonl, x: 'b' })).x.values], [Math.fround(1e20), 2 ** 60]);
});

test('a column that several columns could be, and a share of validation without a row, are refused', async () => {
  const csv = write('twice.csv', 'a,b,a\n1,2,3\n');
  await assert.rejects(
    rowsOf({ path: csv, x: 'a' }),
    /twice\.csv, line 1 \(the header\) has several columns 'a'; give each column its own name/,
  );
  assert.deepEqual([...table(await rowsOf({ path: csv, x: 'b' })).x.values], [2]);
  const none =
    /data\.validation: a share of 1e-9 of \d+ (rows|tokens) is less than one of them; give a larger share/;
  await assert.rejects(rowsOf({ path: csv, x: 'b', validation: 1e-9 }), none);
  await assert.rejects(rowsOf({ x: new Float32Array(9), validation: 1e-9 }), none);
  await assert.rejects(tokensOf({ path: write('short.txt', 'abc'), validation: 1e-9 }), none);
});

test("a share of rows for validation is torch's random_split of the same seed", async () => {
  for (const { length, share, seed, train, validation } of dataReference().splits) {
    const values = Float32Array.from({ length }, (_, i) => i);
    const data = await prepare({ x: values, validation: share }, seed);
    assert.ok(data.kind === 'rows');
    assert.deepEqual([...table(data).x.values], train);
    const part = openRows(data, { ...SOLO, batch: length }).validation;
    assert.deepEqual([...(part?.batch(0, 0).batch.x.values ?? [])], validation);
  }
});

test('arrays keep their values and shapes', async () => {
  const data = await rowsOf({
    x: { values: Float32Array.of(1, 2, 3, 4), shape: [2, 2] },
    y: Int32Array.of(7, 2 ** 30 + 1),
  });
  const { x, y } = table(data);
  assert.deepEqual(x, { shape: [2, 2], dtype: 'float32', values: Float32Array.of(1, 2, 3, 4) });
  assert.deepEqual(y, { shape: [2], dtype: 'int32', values: Int32Array.of(7, 2 ** 30 + 1) });
  await assert.rejects(
    rowsOf({ x: new Float32Array(3), y: new Float32Array(2) }),
    /x has 3 rows, but y has 2/,
  );
  await assert.rejects(
    rowsOf({ x: { values: new Float32Array(3), shape: [2, 2] } }),
    /has 4 numbers, but values has 3/,
  );
});

test("images equal Pillow's: a PNG exactly, a JPEG to 2 of 255; folders are classes in sorted order", async () => {
  const data = await rowsOf(dataFile('images'));
  assert.deepEqual(data.classes, ['ants', 'bees']);
  const { x, y } = table(data);
  assert.deepEqual(x.shape, [3, 3, 12, 10]);
  assert.deepEqual([...(y?.values ?? [])], [0, 0, 1]);
  const names = ['ants/noise.png', 'ants/smooth.jpg', 'bees/grey.png'];
  for (const [i, name] of names.entries()) {
    const recorded = dataReference().images[name] ?? [];
    const values = x.values.subarray(i * 360, (i + 1) * 360);
    const worst = recorded.reduce(
      (most, value, at) => Math.max(most, Math.abs(value - (values[at] ?? 0) * 255)),
      0,
    );
    assert.ok(worst < (name.endsWith('png') ? 1e-4 : 2.001), `${name}: ${worst}`);
  }
});

test('images of another size are scaled with `size`, and refused without it', async () => {
  const scaled = await rowsOf({ path: dataFile('images'), size: [6, 5] });
  const { x } = table(scaled);
  assert.deepEqual(x.shape, [3, 3, 6, 5]);
  const mean = (values: ArrayLike<number>): number =>
    Array.from(values).reduce((sum, value) => sum + value, 0) / values.length;
  const smooth = dataReference().images['ants/smooth.jpg'] ?? [];
  assert.ok(Math.abs(mean(x.values.subarray(90, 180)) - mean(smooth) / 255) < 0.02);
  const small = '<svg';
  write('pictures/a/one.png', small);
  await assert.rejects(rowsOf('pictures'), /one\.png is neither a PNG nor a JPEG image/);
  const [png, jpg] = [
    readFileSync(dataFile('images/ants/noise.png')),
    readFileSync(dataFile('images/ants/smooth.jpg')),
  ];
  writeFileSync(join(folder, 'pictures/a/one.png'), png);
  writeFileSync(join(folder, 'pictures/two.jpg'), jpg);
  await assert.rejects(rowsOf('pictures'), /two\.jpg is in no class; move each image into a folder/);
});

test('a damaged image is reported when it is read', async () => {
  mkdirSync(join(folder, 'damaged/a'), { recursive: true });
  const png = readFileSync(dataFile('images/ants/noise.png'));
  writeFileSync(join(folder, 'damaged/a/cut.png'), png.subarray(0, 60));
  const data = await rowsOf('damaged');
  assert.throws(() => table(data), /cut\.png is damaged; save the image again/);
});

test('a folder that cannot be written is reported with its path', async () => {
  const { data } = parseTrainConfig({ data: 'abc.txt' });
  const own = ownData(data);
  assert.ok(own);
  const options = {
    baseDir: folder,
    seed: 0,
    fileFor: () => join(folder, 'none', 'tokens'),
    progress: () => undefined,
  };
  await assert.rejects(prepareData(own, options), { code: 'IO', message: /^data: ENOENT.*none\/tokens/ });
});
