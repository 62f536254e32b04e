import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, test } from 'node:test';
import { codeCachePath } from '../../src/core/code-cache/code-cache';

const folder = mkdtempSync(join(tmpdir(), 'shardlab-code-'));
after(() => rmSync(folder, { recursive: true, force: true }));

const LIBRARY = join(__dirname, '..', '..', 'src', 'core', 'code-cache', 'code-cache.js');
const CACHE = join(folder, 'cache', 'code.bin');
const ADD = "exports.add = (a, b) => a + b;\nexports.fail = () => { throw new Error('on purpose'); };\n";

writeFileSync(join(folder, 'add.js'), ADD);
writeFileSync(join(folder, 'later.js'), "exports.later = () => import('./add.js');\n");
writeFileSync(
  join(folder, 'main.js'),
  `const { add, fail } = require('./add');
const { later } = require('./later');
const stackOf = (work) => { try { work(); } catch (error) { return error.stack.split('\\n')[1]; } };
module.exports = later().then((loaded) => ({
  sum: add(1, 2),
  same: loaded.add === add,
  place: [__filename, __dirname, require.resolve('./add'), require.main?.filename, this === exports],
  line: stackOf(fail),
}));
`,
);

interface Loaded {
  /** What the modules say; equal however they were loaded. */
  readonly value: unknown;
  /** Names of the modules that came from the cache. */
  readonly used: readonly string[];
}

/** Loads main.js in another process, which first runs `before`. */
function load(before: string, flags: readonly string[] = []): Loaded {
  const program = join(folder, 'program.js');
  writeFileSync(
    program,
    `const { useCodeCache, recordCode } = require(${JSON.stringify(LIBRARY)});
let used = new Set(), write = () => {};
${before}
require('./main.js').then((value) => {
  write(${JSON.stringify(CACHE)}, 'a build');
  console.log(JSON.stringify({ value, used: [...used].map((file) => require('path').basename(file)).sort() }));
});`,
  );
  const { stdout, stderr, status } = spawnSync(process.execPath, [...flags, program], { encoding: 'utf8' });
  assert.equal(status, 0, stderr);
  return JSON.parse(stdout);
}

const use = `used = useCodeCache(${JSON.stringify(CACHE)});`;
const record = 'write = recordCode();';
const plain = load('');

test('without a cache modules load as usual', () => {
  assert.deepEqual(load(use), plain);
});

test('modules from the cache are those that Node compiles: results, paths, lines of errors, import()', () => {
  assert.deepEqual(load(record), plain);
  assert.deepEqual(load(use), { ...plain, used: ['add.js', 'main.js'] });
});

test('a changed module is compiled again', () => {
  writeFileSync(join(folder, 'add.js'), ADD.replace('a + b', 'a - b'));
  const { value, used } = load(use);
  assert.deepEqual(used, ['main.js']);
  assert.equal((value as { sum: number }).sum, -1);
  writeFileSync(join(folder, 'add.js'), ADD);
});

test('a module whose file was only touched comes from the cache', () => {
  utimesSync(join(folder, 'add.js'), 1, 1);
  assert.deepEqual(load(use), { ...plain, used: ['add.js', 'main.js'] });
});

test("code of V8's other flags is not used", () => {
  assert.deepEqual(load(use, ['--no-use-ic']), plain);
});

test('a module that moved to a folder of its name is found', () => {
  rmSync(join(folder, 'add.js'));
  mkdirSync(join(folder, 'add'));
  writeFileSync(join(folder, 'add', 'index.js'), ADD);
  writeFileSync(join(folder, 'later.js'), "exports.later = () => import('./add/index.js');\n");
  assert.equal((load(use).value as { sum: number }).sum, 3);
  rmSync(join(folder, 'add'), { recursive: true });
  writeFileSync(join(folder, 'add.js'), ADD);
  writeFileSync(join(folder, 'later.js'), "exports.later = () => import('./add.js');\n");
});

test('a damaged, a short and an empty cache are not used', () => {
  const bytes = readFileSync(CACHE);
  const damaged = Buffer.from(bytes);
  damaged.writeUInt8(damaged.readUInt8(damaged.length - 100) ^ 1, damaged.length - 100);
  for (const wrong of [damaged, bytes.subarray(0, bytes.length / 2), Buffer.alloc(0)]) {
    writeFileSync(CACHE, wrong);
    assert.deepEqual(load(use), plain);
  }
  writeFileSync(CACHE, bytes);
});

test('a cache is written whole: a failed write leaves the old one and no other file', () => {
  const before = readFileSync(CACHE);
  const blocked = `${record} require('fs').renameSync = () => { throw new Error('full'); };`;
  assert.throws(() => load(blocked), /full/);
  assert.deepEqual(readFileSync(CACHE), before);
  assert.deepEqual(readdirSync(dirname(CACHE)), ['code.bin']);
});

test('each version of Node has its own file', () => {
  assert.match(
    codeCachePath('build'),
    new RegExp(`build/code-cache/${process.version}-${process.arch}\\.bin$`),
  );
});
