import assert from 'node:assert/strict';
import { appendFileSync, mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { ShardlabError } from '../../src/core/errors';
import { createEventFile, readEventFile } from '../../src/ledger/event-file';
import { simulateRanks } from './simulated-step';

const folder = mkdtempSync(join(tmpdir(), 'shardlab-events-'));
after(() => rmSync(folder, { recursive: true }));
const records = simulateRanks({ strategy: 'FULL_SHARD', world: 2 });

function written(name: string): string {
  const path = join(folder, name);
  const file = createEventFile(path, { world: 2, config: { model: 'tiny' } });
  for (const record of records) file.append(record);
  file.close();
  return path;
}

function damage(path: string, line: number, change: (text: string) => string): void {
  const lines = readFileSync(path, 'utf8').split('\n');
  lines[line - 1] = change(lines[line - 1] ?? '');
  writeFileSync(path, lines.join('\n'));
}

function assertDamaged(path: string, line: number, says: RegExp): void {
  assert.throws(
    () => readEventFile(path),
    (error) => {
      assert.ok(error instanceof ShardlabError && error.code === 'IO', String(error));
      assert.ok(error.message.startsWith(`${path}:${line}: `), error.message);
      assert.match(error.message, says);
      assert.equal(error.details.line, line);
      return true;
    },
  );
}

test('written records are read back, with their header', () => {
  const { header, records: back } = readEventFile(written('whole.jsonl'));
  assert.deepEqual(header, { world: 2, config: { model: 'tiny' } });
  assert.deepEqual(back, records);
});

test('the declared type of an owner is stored; a line without one is read as before', () => {
  const path = join(folder, 'declared.jsonl');
  const file = createEventFile(path, { world: 1, config: null });
  const [first] = records;
  assert.ok(first !== undefined);
  const declared = first.memory.owners.map((owner) => ({ ...owner, declared: 'float16' as const }));
  const record = { ...first, memory: { ...first.memory, owners: declared } };
  file.append(record);
  file.append(first);
  file.close();
  assert.ok(!JSON.stringify(first).includes('declared'));
  assert.deepEqual(readEventFile(path).records, [record, first]);
});

test('a loss that is not finite is read back unchanged', () => {
  const path = join(folder, 'nan.jsonl');
  const file = createEventFile(path, { world: 1, config: null });
  const [first] = records;
  assert.ok(first !== undefined);
  file.append({ ...first, loss: Number.NaN });
  file.append({ ...first, loss: Number.POSITIVE_INFINITY });
  file.append({ ...first, loss: null });
  file.close();
  assert.deepEqual(
    readEventFile(path).records.map(({ loss }) => loss),
    [Number.NaN, Number.POSITIVE_INFINITY, null],
  );
});

test('the error of a damaged file names file, line and field', () => {
  const notJson = written('not-json.jsonl');
  damage(notJson, 2, (text) => text.replace(':', ''));
  assertDamaged(notJson, 2, /not JSON/);

  const wrongCause = written('wrong-cause.jsonl');
  damage(wrongCause, 3, (text) => text.replace('"param.shard"', '"param.shared"'));
  assertDamaged(wrongCause, 3, /memory\.owners\.0\.cause/);

  const wrongLength = written('wrong-length.jsonl');
  damage(wrongLength, 2, (text) => text.replace('"deltaBytes":[', '"deltaBytes":[1,'));
  assertDamaged(wrongLength, 2, /columns of different lengths/);

  const noHeader = written('no-header.jsonl');
  damage(noHeader, 1, () => '{"format":"something else"}');
  assertDamaged(noHeader, 1, /not the header of an event file/);
});

test('the error of a file that was cut off says so, and how many records before it are good', () => {
  const path = written('cut.jsonl');
  truncateSync(path, readFileSync(path).length - 100);
  assertDamaged(path, 3, /incomplete/);
  assert.throws(() => readEventFile(path), { details: { path, line: 3, numRecords: 1 } });
});

test('an empty file, a missing file and a file of a later version are refused', () => {
  const empty = join(folder, 'empty.jsonl');
  writeFileSync(empty, '');
  assertDamaged(empty, 1, /empty/);
  assert.throws(() => readEventFile(join(folder, 'missing.jsonl')), { code: 'IO' });
  const future = written('future.jsonl');
  damage(future, 1, (text) => text.replace('"version":1', '"version":2'));
  assertDamaged(future, 1, /version/);
});

test('the error of a file that cannot be written names its path', () => {
  assert.throws(
    () => createEventFile(join(folder, 'no', 'such', 'folder.jsonl'), { world: 1, config: null }),
    {
      code: 'IO',
      message: /no\/such\/folder\.jsonl/,
    },
  );
});

test('a blank line inside the file is damage, not the end', () => {
  const path = written('blank.jsonl');
  appendFileSync(path, '\n');
  assertDamaged(path, 4, /not JSON/);
});
