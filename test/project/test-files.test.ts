import assert from 'node:assert/strict';
import { test } from 'node:test';
import { importScript } from './scripts';

interface Options {
  readonly fast?: boolean;
  readonly long?: boolean;
  readonly only: readonly string[];
}

const load = () => importScript<{ testFiles(options: Options): readonly string[] }>('run-tests');

test('the usual run takes slow tests and leaves long ones', async () => {
  const files = (await load()).testFiles({ only: [] });
  assert.ok(files.includes('test/project/tslab-types.slow.test.ts'));
  assert.ok(!files.some((file) => file.endsWith('.long.test.ts')));
});

test('the fast run is the usual one without slow tests, the long run holds the usual one', async () => {
  const { testFiles } = await load();
  const usual = testFiles({ only: [] });
  assert.deepEqual(
    testFiles({ fast: true, only: [] }),
    usual.filter((file) => !/\.(slow|alone)\.test\.ts$/.test(file)),
  );
  const long = new Set(testFiles({ long: true, only: [] }));
  assert.ok(usual.every((file) => long.has(file)));
});

test('names pick files, by source or compiled path', async () => {
  const { testFiles } = await load();
  const expected = ['test/project/test-files.test.ts'];
  assert.deepEqual(testFiles({ only: ['project/test-files'] }), expected);
  assert.deepEqual(testFiles({ only: ['test/project/test-files.test.js'] }), expected);
});
