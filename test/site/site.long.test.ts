import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { repositoryRoot } from '../support/paths';

test('the site builds; its links lead somewhere, and its words are spelled as dictionaries spell them', () => {
  const root = repositoryRoot();
  const { status, stdout, stderr } = spawnSync(process.execPath, ['scripts/site.mjs'], {
    cwd: root,
    encoding: 'utf8',
  });
  assert.equal(status, 0, `${stdout}\n${stderr}`);
  for (const page of [
    'index.html',
    'documentation.html',
    'gallery.html',
    'api/index.html',
    'planner/index.html',
  ]) {
    assert.ok(existsSync(join(root, 'build', 'site', page)), page);
  }
});
