import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { repositoryRoot } from '../support/paths';

const FOLDER = join(repositoryRoot(), 'test/figures/golden');

/** Compares with a golden file: keys sorted, numbers rounded to five digits. `npm run golden` writes the files anew. */
export function assertGolden(name: string, value: unknown): void {
  const path = join(FOLDER, `${name}.json`);
  const actual = `${JSON.stringify(normalized(value), null, 1)}\n`;
  if (process.env.SHARDLAB_GOLDEN === '1') {
    mkdirSync(FOLDER, { recursive: true });
    writeFileSync(path, actual);
    return;
  }
  assert.equal(actual, readFileSync(path, 'utf8'), `${path} differs; \`npm run golden\` writes it anew`);
}

function normalized(value: unknown): unknown {
  if (typeof value === 'number') return Number(value.toPrecision(5));
  if (Array.isArray(value)) return isFlat(value) ? value.map(normalized).join(' ') : value.map(normalized);
  if (typeof value !== 'object' || value === null) return value;
  const sorted = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return Object.fromEntries(sorted.map(([key, inner]) => [key, normalized(inner)]));
}

/** Columns of numbers take one line each. */
function isFlat(values: readonly unknown[]): boolean {
  return values.every((value) => typeof value === 'number');
}
