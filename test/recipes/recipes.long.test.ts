import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { test } from 'node:test';
import { repositoryRoot } from '../support/paths';
import { recipes } from './recipes';

const ROOT = repositoryRoot();
/** Folders that a copy of the clone does not need; packages are read in place. */
const NOT_COPIED = ['node_modules', '.git', '.venv', join('build', 'executed')];

for (const { title, patch, suite } of recipes()) {
  test(`${title}: a copy of the clone with the example builds, has no lint, and passes the recipe's tests`, (t) => {
    const copy = mkdtempSync(join(tmpdir(), 'shardlab-recipe-'));
    t.after(() => rmSync(copy, { recursive: true, force: true }));
    cpSync(ROOT, copy, { recursive: true, filter: (path) => !NOT_COPIED.includes(relative(ROOT, path)) });
    symlinkSync(join(ROOT, 'node_modules'), join(copy, 'node_modules'));
    execFileSync('git', ['apply', '-C1', join(ROOT, patch)], { cwd: copy, stdio: 'pipe' });
    const { status, stdout, stderr } = spawnSync(
      process.execPath,
      [join(copy, 'scripts', 'test.mjs'), '--no-python', ...suite],
      { cwd: copy, env: environment(), encoding: 'utf8', maxBuffer: 2 ** 26 },
    );
    assert.equal(status, 0, `${stdout.slice(-20_000)}\n${stderr.slice(-5000)}`);
    assert.match(stdout, /\b[1-9]\d* passed, 0 failed/);
  });
}

/** The environment without the variable by which Node's test runner knows its own processes, and without this run's extent. */
function environment(): NodeJS.ProcessEnv {
  const {
    NODE_TEST_CONTEXT: _context,
    SHARDLAB_TEST_CASES: _cases,
    SHARDLAB_GOLDEN: _golden,
    ...rest
  } = process.env;
  return rest;
}
