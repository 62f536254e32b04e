import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { SETTING_ROWS } from '../../src/config/setting-table';
import { MODEL_PARTS } from '../../src/config/settings/model';
import { DIALECTS, rowOf } from '../../src/dialects/dialect-list';
import type { KeyRow, KeyTable } from '../../src/dialects/rows/key-row';
import { repositoryRoot, testData } from '../support/paths';
import { dialectsPage } from './dialects-page';

/** The keys of the installed packages, as test/data/dialects/list_keys.py lists them. */
const INSTALLED: { readonly keys: Readonly<Record<string, readonly string[]>> } = JSON.parse(
  readFileSync(testData('dialects', 'keys.json'), 'utf8'),
);

test('every key of the installed accelerate, deepspeed, torch and transformers has a row', () => {
  let count = 0;
  for (const [name, keys] of Object.entries(INSTALLED.keys)) {
    const dialect = DIALECTS.find((one) => one.name === name);
    assert.ok(dialect, name);
    const missing = keys.filter((key) => rowOf(dialect.keys, key) === null);
    assert.deepEqual(missing, [], name);
    count += keys.length;
  }
  assert.ok(count > 600, `${count} keys`);
});

test('every row of a setting names settings that exist', () => {
  const paths = new Set([
    ...SETTING_ROWS.map(({ path }) => path),
    ...Object.keys(MODEL_PARTS).map((key) => `model.${key}`),
  ]);
  const rowsOf = (keys: KeyTable): readonly KeyRow[] =>
    Object.values(keys).flatMap((row) => [row, ...(row.parts === undefined ? [] : rowsOf(row.parts))]);
  for (const { name, keys } of DIALECTS) {
    for (const { effect, says } of rowsOf(keys)) {
      if (effect === null) assert.ok(paths.has(says), `${name}: ${says}`);
      assert.notEqual(says, '', name);
    }
  }
});

test('docs/dialects.md equals the page generated from the tables of dialects', () => {
  const path = join(repositoryRoot(), 'docs', 'dialects.md');
  const page = readFileSync(path, 'utf8');
  const written = dialectsPage(page, INSTALLED);
  if (process.env.SHARDLAB_GOLDEN === '1') writeFileSync(path, written);
  else assert.equal(page, written, 'docs/dialects.md differs; `npm run golden` writes it anew');
});
