import assert from 'node:assert/strict';
import { test } from 'node:test';
import { importScript } from './scripts';

interface Options {
  readonly fast?: boolean;
  readonly long?: boolean;
  readonly only: readonly string[];
}

const load = () => importScript<{ testFiles(options: Options): readonly string[] }>('run-tests');

test('the usual run contains slow tests and no long tests', async () => {
  const files = (await load()).testFiles({ only: [] });
  assert.ok(files.includes('test/project/tslab-types.slow.test.ts'));
  assert.ok(!files.some((file) => file.endsWith('.long.test.ts')));
});

test('the fast run is the usual run without slow tests, and the long run contains the usual run', async () => {
  const { testFiles } = await load();
  const usual = testFiles({ only: [] });
  assert.deepEqual(
    testFiles({ fast: true, only: [] }),
    usual.filter((file) => !/\.(slow|alone)\.test\.ts$/.test(file)),
  );
  const long = new Set(testFiles({ long: true, only: [] }));
  assert.ok(usual.every((file) => long.has(file)));
});

test('names select files, by source or compiled path', async () => {
  const { testFiles } = await load();
  const expected = ['test/project/test-files.test.ts'];
  assert.deepEqual(testFiles({ only: ['project/test-files'] }), expected);
  assert.deepEqual(testFiles({ only: ['test/project/test-files.test.js'] }), expected);
});
