import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs, { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { createEventFile, readEventFile } from '../../../src/ledger/event-file';
import { prepareFolder } from '../../../src/training/checkpoint/format/checkpoint-folder';
import { decodeValues } from '../../../src/training/checkpoint/format/stored-dtypes';
import { openCatalog, type StoredArray } from '../../../src/training/checkpoint/load/catalog';
import { requireFit } from '../../../src/training/checkpoint/load/fit';

const folder = mkdtempSync(join(tmpdir(), 'shardlab-foreign-'));
after(() => rmSync(folder, { recursive: true, force: true }));

interface Tensor {
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly bytes: Uint8Array;
}

const f32 = (...values: number[]): Tensor => ({
  dtype: 'F32',
  shape: [values.length],
  bytes: new Uint8Array(Float32Array.from(values).buffer),
});

/** A safetensors file as any program may write it. */
function safetensors(tensors: Readonly<Record<string, Tensor>>, metadata: object = {}): Buffer {
  let end = 0;
  const entries = Object.entries(tensors).map(([name, { dtype, shape, bytes }]) => {
    const from = end;
    end += bytes.length;
    return [name, { dtype, shape, data_offsets: [from, end] }];
  });
  const json = Buffer.from(JSON.stringify({ __metadata__: metadata, ...Object.fromEntries(entries) }));
  const size = Buffer.alloc(8);
  size.writeBigUInt64LE(BigInt(json.length));
  return Buffer.concat([size, json, ...Object.values(tensors).map(({ bytes }) => bytes)]);
}

function place(name: string, files: Readonly<Record<string, string | Buffer>>): string {
  const path = join(folder, name);
  mkdirSync(path, { recursive: true });
  for (const [file, content] of Object.entries(files)) writeFileSync(join(path, file), content);
  return path;
}

function valuesOf(array: StoredArray | undefined): number[] {
  return (array?.pieces ?? []).flatMap(({ file, tensor, length }) => [
    ...decodeValues(file.read(tensor, 0, length), file.entry(tensor).dtype),
  ]);
}

test('an index that names a file outside its folder is refused', () => {
  place('outside', { 'secret.safetensors': safetensors({ w: f32(1) }) });
  for (const shard of [
    '../outside/secret.safetensors',
    join(folder, 'outside', 'secret.safetensors'),
    'sub/../../outside/secret.safetensors',
    'a\0b',
    '',
  ]) {
    const path = place('index', {
      'model.safetensors.index.json': JSON.stringify({ weight_map: { w: shard } }),
    });
    assert.throws(() => openCatalog(path, 'model'), {
      code: 'IO',
      message: /model\.safetensors\.index\.json names .* a file of its own folder/,
    });
    const slices = {
      w: { dtype: 'F32', shape: [1], slices: [{ file: shard, tensor: 'w', start: 0, length: 1 }] },
    };
    const metadata = { total_size: 4, state_dict_type: 'SHARDED_STATE_DICT' };
    writeFileSync(join(path, 'model.safetensors.index.json'), JSON.stringify({ metadata, slices }));
    assert.throws(() => openCatalog(path, 'model'), { code: 'IO', message: /a file of its own folder/ });
  }
});

test('a path that is not a regular file is an error at once, for every kind of file that is read', () => {
  const fifo = join(folder, 'fifo.safetensors');
  execFileSync('mkfifo', [fifo]);
  for (const [path, what] of [
    [fifo, /fifo\.safetensors is a FIFO, not a regular file/],
    ['/dev/zero', /is a device, not a regular file/],
  ] as const) {
    assert.throws(() => openCatalog([path], 'model'), { code: 'IO', message: what });
    assert.throws(() => readEventFile(path), { code: 'IO', message: what });
  }
  assert.throws(() => createEventFile(fifo, { world: 1, config: null }), { code: 'IO', message: /fifo/ });
  assert.throws(() => openCatalog([folder], 'model'), {
    code: 'IO',
    message: /is a directory, not a regular/,
  });
  const path = place('index-fifo', {});
  execFileSync('mkfifo', [join(path, 'model.safetensors.index.json')]);
  assert.throws(() => openCatalog(path, 'model'), { code: 'IO', message: /is a FIFO/ });
});

test('a save is an error at once if its folder cannot be made', () => {
  for (const path of ['/proc/shardlab-none', '/proc/none/below', '/dev/null/below']) {
    assert.throws(() => prepareFolder(fs, path, '1-2-3'), { code: 'IO', message: /cannot write .*: / });
  }
  const full: typeof fs = {
    ...fs,
    mkdirSync: () => {
      throw Object.assign(new Error('ENOSPC: no space left on device, mkdir'), { code: 'ENOSPC' });
    },
  };
  assert.throws(() => prepareFolder(full, join(folder, 'deep', 'er'), '1-2-3'), {
    code: 'IO',
    message: /the disk is full/,
  });
  prepareFolder(fs, join(folder, 'made', 'on', 'the', 'way'), '1-2-3');
  assert.ok(fs.existsSync(join(folder, 'made', 'on', 'the', 'way.saving-1-2-3')));
});

test('tensors of unsupported types are left out, and named if a model needs them', () => {
  const path = place('types', {
    'model.safetensors': safetensors({
      w: f32(1, 2),
      steps: { dtype: 'I64', shape: [1], bytes: new Uint8Array(BigInt64Array.of(20_000_001n).buffer) },
      mask: { dtype: 'BOOL', shape: [3], bytes: new Uint8Array(3) },
      count: { dtype: 'F64', shape: [], bytes: new Uint8Array(8) },
      wide: { dtype: 'F64', shape: [1], bytes: new Uint8Array(8) },
      small: { dtype: 'F4', shape: [2], bytes: new Uint8Array(1) },
    }),
  });
  const { arrays, unread, close } = openCatalog(path, 'model');
  assert.deepEqual([...arrays.keys()], ['w', 'steps']);
  assert.deepEqual(valuesOf(arrays.get('steps')), [20_000_001]);
  assert.deepEqual(valuesOf(arrays.get('w')), [1, 2]);
  requireFit(
    'it does not fit',
    new Map([
      ['w', [2]],
      ['steps', [1]],
    ]),
    arrays,
    { unread },
  );
  assert.throws(
    () =>
      requireFit(
        'it does not fit',
        new Map([
          ['w', [2]],
          ['steps', [1]],
          ['wide', [1]],
        ]),
        arrays,
        { unread },
      ),
    {
      code: 'SHAPE',
      message: /wide is F64 in .*model\.safetensors; F32, I32, I64, BF16 and F16 can be read/,
    },
  );
  close();
  const index = place('types-index', {
    'a.safetensors': safetensors({ w: f32(1), n: { dtype: 'F64', shape: [], bytes: new Uint8Array(8) } }),
    'model.safetensors.index.json': JSON.stringify({
      weight_map: { w: 'a.safetensors', n: 'a.safetensors' },
    }),
  });
  const other = openCatalog(index, 'model');
  assert.deepEqual([...other.arrays.keys(), ...other.unread.keys()], ['w', 'n']);
  other.close();
});

test("diffusers' file names are read, with an index and without", () => {
  const one = openCatalog(
    place('d1', { 'diffusion_pytorch_model.safetensors': safetensors({ w: f32(3) }) }),
    'model',
  );
  assert.deepEqual(valuesOf(one.arrays.get('w')), [3]);
  one.close();
  const parts = [1, 2].map((k) => `diffusion_pytorch_model-0000${k}-of-00002.safetensors`);
  const [a = '', b = ''] = parts;
  const many = openCatalog(
    place('d2', {
      [a]: safetensors({ v: f32(1) }),
      [b]: safetensors({ w: f32(2) }),
      'diffusion_pytorch_model.safetensors.index.json': JSON.stringify({ weight_map: { v: a, w: b } }),
    }),
    'model',
  );
  assert.deepEqual([...valuesOf(many.arrays.get('v')), ...valuesOf(many.arrays.get('w'))], [1, 2]);
  many.close();
});

test('a list of published shards is read without an index, and what it lacks is named', () => {
  const shard = (k: number, n: number) => `diffusion_pytorch_model-0000${k}-of-0000${n}.safetensors`;
  const pointer = 'version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n';
  const files = { [shard(1, 2)]: safetensors({ v: f32(1) }), [shard(2, 2)]: safetensors({ w: f32(2) }) };
  const whole = openCatalog(place('list', files), 'model');
  assert.deepEqual([...valuesOf(whole.arrays.get('v')), ...valuesOf(whole.arrays.get('w'))], [1, 2]);
  whole.close();
  const cases: readonly (readonly [string, Readonly<Record<string, string | Buffer>>, RegExp])[] = [
    [
      'part',
      { [shard(1, 3)]: safetensors({ v: f32(1) }) },
      /00002-of-00003\.safetensors is missing: the folder has 1 of 3 shards/,
    ],
    [
      'two',
      { ...files, [shard(1, 3)]: safetensors({ x: f32(1) }) },
      /has shards of two models, such as .*of-00002.* and .*of-00003/,
    ],
    [
      'stubs',
      { [shard(1, 2)]: pointer, [shard(2, 2)]: pointer },
      /00001-of-00002\.safetensors is a Git-LFS pointer.*run `git lfs pull`/,
    ],
  ];
  for (const [name, content, message] of cases)
    assert.throws(() => openCatalog(place(name, content), 'model'), { code: 'IO', message });
});

const rows = (shape: readonly number[], ...values: number[]): Tensor => ({ ...f32(...values), shape });
const offsets = (map: Readonly<Record<string, readonly number[]>>): object => ({
  format: 'pt',
  DCP_VERSION: '1.0',
  DCP_SHARDING_INFO: JSON.stringify(
    Object.fromEntries(Object.entries(map).map(([name, saved]) => [name, { saved_offsets: saved }])),
  ),
});

test("the shards of torch's distributed checkpoint are joined by their offsets, without an index", () => {
  const path = place('dcp', {
    'shard-00002-model-00001-of-00001.safetensors': safetensors(
      { w: rows([1, 2], 5, 6), b: rows([1], 9) },
      offsets({ w: [2, 0], b: [1] }),
    ),
    'shard-00001-model-00001-of-00001.safetensors': safetensors(
      { w: rows([2, 2], 1, 2, 3, 4), b: rows([1], 8) },
      offsets({ w: [0, 0], b: [0] }),
    ),
  });
  const { arrays, close } = openCatalog(path, 'model');
  assert.deepEqual(arrays.get('w')?.shape, [3, 2]);
  assert.deepEqual(valuesOf(arrays.get('w')), [1, 2, 3, 4, 5, 6]);
  assert.deepEqual(valuesOf(arrays.get('b')), [8, 9]);
  close();
});

test('shards of a distributed checkpoint are refused if rows are missing or another dimension is cut', () => {
  const name = 'shard-00001-model-00001-of-00001.safetensors';
  const gap = place('dcp-gap', { [name]: safetensors({ w: rows([1, 2], 5, 6) }, offsets({ w: [2, 0] })) });
  assert.throws(() => openCatalog(gap, 'model'), { code: 'IO', message: /slices of w \[3, 2\] have a gap/ });
  const columns = place('dcp-columns', {
    [name]: safetensors({ w: rows([2, 1], 1, 3) }, offsets({ w: [0, 1] })),
  });
  assert.throws(() => openCatalog(columns, 'model'), {
    code: 'IO',
    message: /w is sharded along dim 1/,
  });
});
