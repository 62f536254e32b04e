import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { repositoryRoot } from '../support/paths';

const FOLDER = join(repositoryRoot(), 'test/figures/golden');

/** Compares with a golden file. `npm run golden` rewrites the files. */
export function assertGolden(name: string, actual: string): void {
  const path = join(FOLDER, `${name}.txt`);
  if (process.env.SHARDLAB_GOLDEN === '1') {
    mkdirSync(FOLDER, { recursive: true });
    writeFileSync(path, actual);
    return;
  }
  assert.equal(actual, readFileSync(path, 'utf8'), `${path} differs; \`npm run golden\` writes it anew`);
}
