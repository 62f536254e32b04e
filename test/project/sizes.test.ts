import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readSources } from './sources';

const MEDIAN_LINES = 150;
const MOST_LINES = 300;

/** Files that may be longer, each with its reason. */
const LONGER: Readonly<Record<string, string>> = {};

const lengths = [...readSources('src', 'kernel')].map(([path, text]) => ({
  path,
  lines: text.trimEnd().split('\n').length,
}));

test(`the median source file has at most ${MEDIAN_LINES} lines`, () => {
  const sorted = lengths.map(({ lines }) => lines).sort((a, b) => a - b);
  const median = sorted[Math.floor(sorted.length / 2)] ?? 0;
  assert.ok(median <= MEDIAN_LINES, `the median is ${median}`);
});

test(`no source file has more than ${MOST_LINES} lines without a reason in this test`, () => {
  const long = lengths.filter(({ path, lines }) => lines > MOST_LINES && !(path in LONGER));
  assert.deepEqual(long, []);
});

test('every file with a reason to be long is still there and still long', () => {
  const needless = Object.keys(LONGER).filter(
    (path) => !lengths.some((file) => file.path === path && file.lines > MOST_LINES),
  );
  assert.deepEqual(needless, []);
});
