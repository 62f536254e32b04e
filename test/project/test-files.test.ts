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
  inOrder(files: readonly string[], durations?: Readonly<Record<string, number>>): readonly string[];
  smokeFiles(files: readonly string[]): readonly string[];
  sharedProcesses(
    files: readonly string[],
    folder: string,
    run?: { readonly long: boolean },
  ): readonly string[];
}

const load = () => importScript<RunTests>('run-tests');

test('the usual run contains slow tests and no long tests', async () => {
  const files = (await load()).testFiles({ only: [] });
  assert.ok(files.includes('test/kernel/ranks.slow.test.ts'));
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

function sharesJobs(compiled: string): boolean {
  return /\b(shareJob|launchOwn)\)?\(/.test(readFileSync(compiled, 'utf8'));
}

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
      assert.ok(new Set(folders).size === 1 || shared.every(sharesJobs), shared.join());
      assert.ok(!shared.some((file) => /\.(alone|long)\.test\.js$/.test(file)));
      const slow = shared.filter((file) => /\.slow\.test\.js$/.test(file)).length;
      assert.ok(slow === 0 || (!long && slow === shared.length), shared.join());
    }
  });
}

test('slow files whose ranks or jobs are shared run in processes of several', async (t) => {
  const { testFiles, sharedProcesses } = await load();
  const folder = mkdtempSync(join(tmpdir(), 'shardlab-shared-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const files = testFiles({ only: ['.slow.test'] });
  const shared = sharedProcesses(files, folder)
    .map((process) => readFileSync(process, 'utf8').match(/require\("[^"]*\.slow\.test\.js"\)/g) ?? [])
    .filter(({ length }) => length > 1)
    .flat();
  const sharing = files.filter((file) =>
    /shareJob\(|launchOwn\(|support\/launch-ranks'|-rank'/.test(
      readFileSync(join(repositoryRoot(), file), 'utf8'),
    ),
  );
  assert.ok(sharing.length > 30, `only ${sharing.length}`);
  const alone = sharing.filter((file) => !shared.some((text) => text.includes(file.replace(/ts$/, 'js'))));
  assert.deepEqual(alone, []);
});

test('node:test starts slow files first: those that took longest here, after those that never ran here', async (t) => {
  const { testFiles, inOrder, sharedProcesses } = await load();
  const folder = mkdtempSync(join(tmpdir(), 'shardlab-shared-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const all = testFiles({ only: [] });
  const durations = Object.fromEntries(all.slice(1).map((file, i) => [file, (i * 7) % 100]));
  for (const known of [{}, durations]) {
    const files = inOrder(all, known);
    assert.deepEqual([...files].sort(), [...all].sort());
    const firstFast = files.findIndex((file) => !/\.slow\.test\.ts$/.test(file));
    assert.ok(files.slice(firstFast).every((file) => !/\.slow\.test\.ts$/.test(file)));
    const processes = sharedProcesses(files, folder);
    // node:test sorts files by name.
    assert.deepEqual([...processes].sort(), processes);
    assert.ok(readFileSync(processes[0] ?? '', 'utf8').includes(files[0]?.replace(/ts$/, 'js') ?? '?'));
  }
  const named = ['test/a.slow.test.ts', 'test/b.slow.test.ts', 'test/c.test.ts', 'test/new.slow.test.ts'];
  const order = inOrder(named, { 'test/a.slow.test.ts': 1, 'test/b.slow.test.ts': 9, 'test/c.test.ts': 20 });
  assert.deepEqual(order, [
    'test/new.slow.test.ts',
    'test/b.slow.test.ts',
    'test/a.slow.test.ts',
    'test/c.test.ts',
  ]);
});

test('the smoke has a cell, a job of each strategy, a figure, a plan, a checkpoint and a bundle', async () => {
  const { testFiles, smokeFiles } = await load();
  const files = smokeFiles(testFiles({ only: [] }));
  const marks = files.map(
    (file) => /Smoke: (.*)\]/.exec(readFileSync(join(repositoryRoot(), file), 'utf8'))?.[1],
  );
  assert.deepEqual(marks.join(', ').split(', ').sort(), [
    'a bundle',
    'a cell',
    'a checkpoint',
    'a figure',
    'a job of each strategy',
    'a plan',
  ]);
});
