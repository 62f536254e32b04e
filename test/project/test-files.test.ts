import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { repositoryRoot } from '../support/paths';
import { importScript } from './scripts';

interface Options {
  readonly fast?: boolean;
  readonly long?: boolean;
  readonly torch?: boolean;
  readonly only: readonly string[];
}

interface RunTests {
  testFiles(options: Options): readonly string[];
  inOrder(files: readonly string[]): readonly string[];
  sharedProcesses(
    files: readonly string[],
    folder: string,
    run?: { readonly long: boolean },
  ): readonly string[];
}

const load = () => importScript<RunTests>('run-tests');

test('the usual run contains slow tests and no long tests', async () => {
  const files = (await load()).testFiles({ only: [] });
  assert.ok(files.includes('test/project/start.slow.test.ts'));
  assert.ok(!files.some((file) => file.endsWith('.long.test.ts')));
});

test('the fast run is the usual run without slow tests, and the long run contains the usual run', async () => {
  const { testFiles } = await load();
  const usual = testFiles({ only: [] });
  assert.deepEqual(
    testFiles({ fast: true, only: [] }),
    usual.filter((file) => !/\.slow\.test\.ts$/.test(file)),
  );
  const long = new Set(testFiles({ long: true, only: [] }));
  assert.ok(usual.every((file) => long.has(file)));
});

test('only the run with PyTorch contains its tests, and no other tests', async () => {
  const { testFiles } = await load();
  const withTorch = testFiles({ torch: true, only: [] });
  assert.ok(withTorch.includes('test/cli/doctor.torch.test.ts'));
  assert.ok(withTorch.every((file) => file.endsWith('.torch.test.ts')));
  const others = [{}, { fast: true }, { long: true }].flatMap((run) => testFiles({ ...run, only: [] }));
  assert.ok(!others.some((file) => withTorch.includes(file)));
});

test('names select files, by source or compiled path', async () => {
  const { testFiles } = await load();
  const expected = ['test/project/test-files.test.ts'];
  assert.deepEqual(testFiles({ only: ['project/test-files'] }), expected);
  assert.deepEqual(testFiles({ only: ['test/project/test-files.test.js'] }), expected);
});

for (const long of [false, true]) {
  const where = long
    ? ', slow files alone in the long run'
    : ' or with others of its folder that take about as long';
  test(`every file runs once, in a process of its own${where}`, async (t) => {
    const { testFiles, sharedProcesses } = await load();
    const folder = mkdtempSync(join(tmpdir(), 'shardlab-shared-'));
    t.after(() => rmSync(folder, { recursive: true, force: true }));
    const files = testFiles({ long: true, only: [] });
    const built = (file: string): string => join(repositoryRoot(), 'build', file.replace(/ts$/, 'js'));
    const processes = sharedProcesses(files, folder, { long });
    const byProcess = processes.map((process) => {
      return [...readFileSync(process, 'utf8').matchAll(/require\("(.*)"\)/g)].map(([, file = '']) => file);
    });
    assert.deepEqual(byProcess.flat().sort(), files.map(built).sort());
    for (const shared of byProcess.filter(({ length }) => length > 1)) {
      const folders = shared.map((file) => file.slice(built('test/').length).split('/')[0]);
      assert.equal(new Set(folders).size, 1);
      assert.ok(!shared.some((file) => /\.(alone|long)\.test\.js$/.test(file)));
      const slow = shared.filter((file) => /\.slow\.test\.js$/.test(file)).length;
      assert.ok(slow === 0 || (!long && slow === shared.length), shared.join());
    }
  });
}

test('node:test starts the longest files first, then the other slow ones, then the fast ones', async (t) => {
  const { testFiles, inOrder, sharedProcesses } = await load();
  const folder = mkdtempSync(join(tmpdir(), 'shardlab-shared-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const files = inOrder(testFiles({ only: [] }));
  assert.deepEqual([...files].sort(), [...testFiles({ only: [] })].sort());
  const firstFast = files.findIndex((file) => !/\.slow\.test\.ts$/.test(file));
  assert.ok(files.slice(firstFast).every((file) => !/\.slow\.test\.ts$/.test(file)));
  assert.equal(files[0], 'test/kernel/examples.slow.test.ts');
  const processes = sharedProcesses(files, folder);
  // node:test sorts files by name.
  assert.deepEqual([...processes].sort(), processes);
  assert.match(readFileSync(processes[0] ?? '', 'utf8'), /kernel\/examples\.slow\.test\.js/);
});
