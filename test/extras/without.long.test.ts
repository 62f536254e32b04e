import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { repositoryRoot } from '../support/paths';

const ROOT = repositoryRoot();

test('src and kernel without src/extras have no type errors', (context) => {
  const folder = mkdtempSync(join(tmpdir(), 'shardlab-types-'));
  context.after(() => rmSync(folder, { recursive: true, force: true }));
  for (const part of ['package.json', 'claims', 'src', 'kernel'])
    cpSync(join(ROOT, part), join(folder, part), {
      recursive: true,
      filter: (path) => path !== join(ROOT, 'src', 'extras'),
    });
  symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
  const settings = readFileSync(join(ROOT, 'tsconfig.json'), 'utf8');
  writeFileSync(
    join(folder, 'tsconfig.json'),
    settings.replace('["src", "kernel", "test"]', '["src", "kernel"]'),
  );
  const compiler = createRequire(__filename).resolve('typescript/bin/tsc');
  const { status, stdout } = spawnSync(process.execPath, [compiler, '--noEmit', '-p', folder], {
    encoding: 'utf8',
  });
  assert.equal(status, 0, stdout);
});
