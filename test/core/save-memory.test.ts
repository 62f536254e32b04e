import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';

const USE = join(__dirname, '..', '..', 'src', 'core', 'code-cache', 'use.js');

/** Makes many objects in a process that saves memory or does not; returns the space for new objects, in kB, and the arenas. */
function measured(env: NodeJS.ProcessEnv): unknown {
  const program = `
require(${JSON.stringify(USE)});
const keep = [];
for (let i = 0; i < 2e6; i++) { const made = { i, list: [i] }; if (i % 20 === 0) keep.push(made); }
const { space_size } = require('node:v8').getHeapSpaceStatistics().find(({ space_name }) => space_name === 'new_space');
console.log(JSON.stringify([space_size / 1024 <= 4096, process.env.MALLOC_ARENA_MAX ?? null]));`;
  const { stdout, stderr } = spawnSync(process.execPath, ['-e', program], {
    encoding: 'utf8',
    env: { ...process.env, MALLOC_ARENA_MAX: undefined, ...env },
  });
  assert.equal(stderr, '');
  return JSON.parse(stdout);
}

test('SHARDLAB_SAVE_MEMORY=1 bounds the space for new objects and the arenas of child processes', () => {
  assert.deepEqual(measured({ SHARDLAB_SAVE_MEMORY: '1' }), [true, '1']);
  assert.deepEqual(measured({ SHARDLAB_SAVE_MEMORY: undefined }), [false, null]);
});
