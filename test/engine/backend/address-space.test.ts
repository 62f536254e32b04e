import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { BufferTable } from '../../../src/engine/backend/buffer-table';
import { outOfMemory } from '../../../src/engine/backend/out-of-memory';

const ENGINE = join(__dirname, '..', '..', '..', 'src', 'engine', 'backend', 'wasm-engine.js');
const PROGRAM = `require(${JSON.stringify(ENGINE)}).createWasmEngine({ blas: 'none' })
  .then(() => console.log('started'), ({ code, message }) => console.log(code, message));`;

test('if the engine cannot reserve addresses for its heap, the error says so', {
  skip: process.platform !== 'linux' && 'limits of virtual memory are kept on Linux alone',
}, async () => {
  const limited = ['-c', 'ulimit -v 8000000; exec "$0" -e "$1"', process.execPath, PROGRAM];
  const { stdout } = await promisify(execFile)('/bin/sh', limited);
  assert.match(stdout, /^OUT_OF_MEMORY The wasm engine cannot start.*ulimit -v unlimited/m);
});

test('a heap that the host does not let grow has another error than a full heap', () => {
  const request = {
    bytes: 2e9,
    shape: [5e8],
    dtype: 'float32',
    boundary: 'host',
    limit: 1e9,
  } as const;
  const table = new BufferTable();
  assert.match(
    outOfMemory(table, request).message,
    /lets the wasm engine's heap grow no further than 1\.00 GB/,
  );
  assert.match(outOfMemory(table, { ...request, boundary: 'heap' }).message, /heap ends at 1\.00 GB/);
});
