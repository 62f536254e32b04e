import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { findBlas } from '../../../src/engine/backend/blas';
import { createWasmEngine } from '../../../src/engine/backend/wasm-engine';
import { sitePackages } from '../../../src/launch/site-packages';
import { repositoryRoot } from '../../support/paths';

const searchPaths = sitePackages(process.env, repositoryRoot());
const found = findBlas({ searchPaths });
const skip = found.library === null ? `no BLAS on this machine: ${found.reason}` : false;

test('if BLAS is switched off, the library is null and the reason says so', () => {
  const absent = findBlas({ blas: 'none', searchPaths });
  assert.equal(absent.library, null);
  assert.match(absent.reason, /switched off/);
});

test('a path that is not a BLAS library is refused, and the reason names the path', () => {
  const folder = mkdtempSync(join(tmpdir(), 'shardlab-blas-'));
  try {
    const path = join(folder, 'libopenblas.so');
    writeFileSync(path, 'no library');
    for (const blas of [{ path }, { path: join(folder, 'missing.so') }]) {
      const absent = findBlas({ blas });
      assert.equal(absent.library, null);
      assert.ok(absent.reason.includes(blas.path), absent.reason);
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test('the library of the path that a user gives is loaded', { skip }, async () => {
  assert.ok(found.library !== null);
  const own = findBlas({ blas: { path: found.path }, threads: 2 });
  assert.ok(own.library !== null);
  assert.deepEqual([own.path, own.library, own.threads], [found.path, found.library, 2]);
  const engine = await createWasmEngine({ blas: { path: found.path } });
  assert.deepEqual(engine.blas, { library: found.library, path: found.path, threads: 1 });
});

test("numpy's OpenBLAS is found before the system's", {
  skip: searchPaths.length === 0 ? 'no Python environment here' : skip,
}, () => {
  assert.ok(found.library !== null);
  assert.match(found.path, /numpy/);
});

test('without koffi the engine computes matmuls in wasm, and addresses are 0', () => {
  const script = `
    const Module = require('node:module');
    const resolve = Module._resolveFilename;
    Module._resolveFilename = function (name, ...rest) {
      if (name === 'koffi') throw new Error("Cannot find module 'koffi'");
      return resolve.call(this, name, ...rest);
    };
    const tf = require('shardlab/tf');
    const { createWasmEngine } = require(${JSON.stringify(join(__dirname, '../../../src/engine/backend/wasm-engine.js'))});
    createWasmEngine().then((engine) => {
      const product = tf.matMul(tf.ones([2, 3]), tf.ones([3, 2]));
      console.log(JSON.stringify([engine.blas, engine.storage(product).address, [...product.dataSync()]]));
    });`;
  const output = execFileSync(process.execPath, ['-e', script], { cwd: repositoryRoot(), encoding: 'utf8' });
  const [blas, address, product] = JSON.parse(output) as [{ reason: string }, number, number[]];
  assert.match(blas.reason, /koffi does not load/);
  assert.equal(address, 0);
  assert.deepEqual(product, [3, 3, 3, 3]);
});
