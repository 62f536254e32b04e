import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { goneAfter } from '../../session/job-fixture';
import { parquetBytes } from './parquet-bytes';

const READER = require.resolve('../../../src/training/data/files/parquet');

test('the process that decodes a Parquet file ends when the process that reads is killed', {
  skip: process.platform !== 'linux' && 'only Linux lists the children of a process in /proc',
}, async (context) => {
  const folder = mkdtempSync(join(tmpdir(), 'shardlab-parquet-'));
  context.after(() => rmSync(folder, { recursive: true, force: true }));
  const file = join(folder, 'long.parquet');
  // Decoding 2^30 rows takes far longer than the test.
  writeFileSync(file, parquetBytes({ numRows: 2 ** 30, encoding: 'dictionary', page: [0] }));
  const program = `const { ParquetFile } = require(${JSON.stringify(READER)});
    ParquetFile.open(${JSON.stringify(file)}).then(async (parquet) => {
      const rows = parquet.rows(['text']);
      setTimeout(() => process.stdout.write('decoding'), 200);
      for await (const _ of rows);
    });`;
  const reader = spawn(process.execPath, ['-e', program], { stdio: ['ignore', 'pipe', 'inherit'] });
  context.after(() => reader.kill('SIGKILL'));
  await once(reader.stdout, 'data');
  const children = readFileSync(`/proc/${reader.pid}/task/${reader.pid}/children`, 'utf8')
    .trim()
    .split(' ')
    .map(Number);
  assert.equal(children.length, 1);
  reader.kill('SIGKILL');
  assert.notEqual(await goneAfter(children), undefined, 'the process decodes on without a reader');
});
