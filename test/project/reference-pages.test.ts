import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { PARTS, withPart } from './reference-pages';
import { ROOT } from './sources';

for (const [name, { page, lines }] of Object.entries(PARTS)) {
  test(`the part "${name}" of docs/reference/${page} is what code and commands say`, () => {
    const path = join(ROOT, 'docs', 'reference', page);
    const text = readFileSync(path, 'utf8');
    const rows = lines();
    assert.ok(rows.length > 10 && rows.every((row) => !/\| *\|$/.test(row)), rows.join('\n'));
    const written = withPart(text, name, rows);
    if (process.env.SHARDLAB_GOLDEN === '1') writeFileSync(path, written);
    else assert.equal(text, written, `docs/reference/${page} differs; \`npm run golden\` writes it anew`);
  });
}
