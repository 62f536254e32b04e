import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { repositoryRoot } from '../support/paths';

describe('each script of package.json loads in a clone that has no npm packages yet', () => {
  // Without the lock file, a script that sets up packages before it reads its options ends there.
  const clone = mkdtempSync(join(tmpdir(), 'shardlab-clone-'));
  after(() => rmSync(clone, { recursive: true }));
  for (const name of ['scripts', 'package.json']) {
    cpSync(join(repositoryRoot(), name), join(clone, name), { recursive: true });
  }
  for (const script of readdirSync(join(clone, 'scripts')).filter((name) => name.endsWith('.mjs'))) {
    test(script, () => {
      const { stdout, stderr } = spawnSync(process.execPath, [join('scripts', script), '--help'], {
        cwd: clone,
        encoding: 'utf8',
        timeout: 20_000,
      });
      assert.doesNotMatch(stdout + stderr, /Cannot find (module|package)/);
    });
  }
});
