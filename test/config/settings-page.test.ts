import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { repositoryRoot } from '../support/paths';
import { settingsPage } from './settings-page';

test('docs/reference/settings.md equals the page generated from the table of settings', () => {
  const path = join(repositoryRoot(), 'docs', 'reference', 'settings.md');
  const page = readFileSync(path, 'utf8');
  const written = settingsPage(page);
  if (process.env.SHARDLAB_GOLDEN === '1') writeFileSync(path, written);
  else assert.equal(page, written, 'docs/reference/settings.md differs; `npm run golden` writes it anew');
});
