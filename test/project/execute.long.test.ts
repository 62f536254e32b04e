import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { executeNotebooks } from '../../src/cli/lab/execute';
import { createJobFolder, removeJobFolder } from '../../src/launch/control/folder';
import { repositoryRoot } from '../support/paths';
import { importScript } from './scripts';

const skip =
  process.env.SHARDLAB_PYTHON === undefined ? 'there is no Python here (npm test --no-python)' : false;
const QUICKSTART = join(repositoryRoot(), 'notebooks', '00-quickstart.ipynb');

// If this process is killed, a later launch of a job removes the folder.
const folder = createJobFolder();
after(() => removeJobFolder(folder));

test('npm start -- --execute runs the quickstart unless notebooks are named', async () => {
  const { readOptions } = await importScript<{
    readOptions(argv: readonly string[]): {
      readonly execute: boolean;
      readonly notebooks: readonly string[];
    };
  }>('start');
  const { execute: executes, notebooks } = readOptions(['--execute']);
  assert.ok(executes);
  assert.deepEqual(notebooks, [QUICKSTART]);
});

test('notebooks in the clone and outside of it run and are written with their HTML; a failing cell ends the run with status 1 and is printed with its line', {
  skip,
}, async (context) => {
  // The build's folder is not part of the repository.
  const inside = mkdtempSync(join(repositoryRoot(), 'build', 'execute-'));
  context.after(() => rmSync(inside, { recursive: true }));
  const output = join(folder, 'inside');
  const cell = "import * as sl from 'shardlab';\nsl.lookup('BACKWARD_PRE')";
  const failing = [
    "import * as sl from 'shardlab';\nconst a = sl.lookup('FSDP');",
    'throw new Error("on purpose");',
  ];
  const ran = await execute(
    writeNotebook('inside.ipynb', [cell], inside),
    writeNotebook('failing.ipynb', failing),
    '--output',
    output,
  );
  assert.equal(ran.status, 1);
  assertExecuted(join(output, 'inside.ipynb'));
  assert.equal(measuredRun(join(output, 'inside.ipynb')), undefined);
  assert.ok(existsSync(join(output, 'inside.html')));
  assert.doesNotMatch(ran.stderr, /inside\.ipynb/);
  assert.match(
    ran.stderr,
    /failing\.ipynb: cell 2 \(In\[2\]\) failed:[\s\S]*Error: on purpose[\s\S]*In\[2\]:1:/,
  );
  assert.match(readFileSync(join(output, 'failing.ipynb'), 'utf8'), /"output_type": "error"/);
});

test('only on request, a notebook gets the time and the peak of memory of its run', { skip }, async () => {
  const python = process.env.SHARDLAB_PYTHON ?? '';
  const file = writeNotebook('measured.ipynb', ['1 + 1']);
  for (const isMeasured of [true, false]) {
    const place = { python, env: process.env };
    const status = await executeNotebooks(
      place,
      [file],
      { inPlace: true },
      { isMeasured, progressToStderr: true },
    );
    assert.equal(status, 0);
    const run = measuredRun(file);
    if (!isMeasured) assert.equal(run, undefined, 'figures of another run do not stay');
    else assert.ok(run !== undefined && run.seconds >= 0 && (run.peakMB === null || run.peakMB > 0));
  }
});

test('all cells of the quickstart, with a tenth of their steps, also run outside the clone', {
  skip,
}, async () => {
  const copy = join(folder, '00-quickstart.ipynb');
  writeFileSync(copy, readFileSync(QUICKSTART, 'utf8').replace(/\.step\((\d+)0\)/g, '.step($1)'));
  const output = join(folder, 'outside');
  const ran = await execute(copy, '--output', output);
  assert.equal(ran.status, 0, ran.stderr);
  assertExecuted(join(output, '00-quickstart.ipynb'));
});

test('a missing notebook ends the run with status 1 and its name', { skip }, async () => {
  const ran = await execute(join(folder, 'absent.ipynb'));
  assert.equal(ran.status, 1);
  assert.match(ran.stderr, /No such notebook: .*absent\.ipynb/);
});

test('the error of an output folder that cannot be written names it, without a bare traceback', {
  skip,
}, async () => {
  const file = writeNotebook('one-cell.ipynb', ['1']);
  const ran = await execute(file, '--output', join(file, 'inside-a-file'));
  assert.equal(ran.status, 1);
  assert.match(ran.stderr, /Results cannot be written into .*inside-a-file \(EEXIST.*\n +→ name a folder/);
  assert.doesNotMatch(ran.stderr, /Traceback/);
});

interface Cell {
  readonly cell_type: string;
  readonly source: string | readonly string[];
  readonly execution_count?: number | null;
  readonly metadata: { readonly tags?: readonly string[] };
  readonly outputs?: readonly { readonly output_type: string }[];
}

/** The figures of its run that a notebook's metadata has. */
function measuredRun(path: string): { readonly seconds: number; readonly peakMB: number | null } | undefined {
  return JSON.parse(readFileSync(path, 'utf8')).metadata.shardlab?.run;
}

/** Every code cell ran, and none failed except on purpose. */
function assertExecuted(path: string): void {
  const { cells } = JSON.parse(readFileSync(path, 'utf8')) as { cells: readonly Cell[] };
  const code = cells.filter(({ cell_type }) => cell_type === 'code');
  assert.ok(code.length > 0);
  for (const cell of code) {
    assert.equal(typeof cell.execution_count, 'number');
    const mayFail = cell.metadata.tags?.includes('raises-exception') ?? false;
    assert.ok(mayFail || cell.outputs?.every(({ output_type }) => output_type !== 'error'));
  }
}

function writeNotebook(name: string, sources: readonly string[], place = folder): string {
  const path = join(place, name);
  const cells = sources.map((source, i) => ({
    cell_type: 'code',
    id: `cell-${i}`,
    metadata: {},
    source,
    outputs: [],
    execution_count: null,
  }));
  const metadata = { kernelspec: { name: 'shardlab', display_name: '', language: 'typescript' } };
  writeFileSync(path, JSON.stringify({ cells, metadata, nbformat: 4, nbformat_minor: 5 }));
  return path;
}

async function execute(
  ...args: readonly string[]
): Promise<{ readonly status: number; readonly stderr: string }> {
  const start = join(repositoryRoot(), 'scripts', 'start.mjs');
  const child = spawn(process.execPath, [start, '--execute', ...args], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let stderr = '';
  child.stderr.setEncoding('utf8').on('data', (text) => {
    stderr += text;
  });
  const [status] = await once(child, 'close');
  return { status, stderr };
}
