import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { importScript } from '../project/scripts';
import { ROOT } from '../project/sources';
import { readNotebook } from './executed';

interface Tutorial {
  writeTutorial(page: string): void;
}

test('the tutorial lists each notebook with its question, and with the time and memory of its stored run', async () => {
  const { writeTutorial } = await importScript<Tutorial>('tutorial');
  const page = join(ROOT, 'docs', 'tutorial', 'index.md');
  const folder = mkdtempSync(join(tmpdir(), 'shardlab-tutorial-'));
  try {
    const copy = join(folder, 'index.md');
    writeFileSync(copy, readFileSync(page));
    writeTutorial(copy);
    assert.equal(
      readFileSync(page, 'utf8'),
      readFileSync(copy, 'utf8'),
      '`npm run notebooks` writes the list',
    );
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
  const rows = readFileSync(page, 'utf8')
    .split('\n')
    .filter((line) => line.startsWith('| ['));
  const names = readdirSync(join(ROOT, 'notebooks')).filter((name) => /(?<!\.zh)\.ipynb$/.test(name));
  assert.equal(rows.length, names.length);
  assert.ok(
    rows.every((row) => /\| \d+ \| [\d.]+ GB \|$/.test(row)),
    rows.join('\n'),
  );
});

test('cells read no file outside of the folder of notebooks, which `shardlab lab` copies', () => {
  const folder = join(ROOT, 'notebooks');
  for (const name of readdirSync(folder).filter((file) => file.endsWith('.ipynb'))) {
    for (const { cell_type: type, source } of readNotebook(join(folder, name)).cells) {
      if (type === 'code') assert.doesNotMatch([source].flat().join(''), /['"`]\.\.\//, name);
    }
  }
});
