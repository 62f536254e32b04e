import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { copyFileSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { testData } from '../support/paths';

const STORED = testData('dialects', 'source_keys.json');

test('the stored keys and defaults are those of the packages that PyPI has', {
  timeout: 600_000,
}, (context) => {
  const folder = mkdtempSync(join(tmpdir(), 'shardlab-packages-'));
  context.after(() => rmSync(folder, { recursive: true, force: true }));
  const listed = join(folder, 'keys.json');
  copyFileSync(STORED, listed); // has Megatron-LM's, which is not on PyPI
  const script = testData('dialects', 'list_source_keys.py');
  const python = process.env.SHARDLAB_PYTHON ?? 'python3';
  const { status, stderr, error } = spawnSync(python, [script, folder, listed], { encoding: 'utf8' });
  if (error !== undefined) return context.skip(`${python} does not start: ${error.message}`);
  const isOffline =
    /No module named pip|No matching distribution|ConnectionError|NewConnectionError|Temporary failure/.test(
      stderr,
    );
  if (status !== 0 && isOffline)
    return context.skip(`pip downloads no packages here: ${stderr.trim().split('\n').at(-1)}`);
  assert.equal(status, 0, stderr);
  assert.deepEqual(JSON.parse(readFileSync(listed, 'utf8')), JSON.parse(readFileSync(STORED, 'utf8')));
});
