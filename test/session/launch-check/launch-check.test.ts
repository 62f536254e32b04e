import assert from 'node:assert/strict';
import { readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { launchCheck } from '../../../src/session/launch-check/launch-check';
import { shardlab } from '../../cli/run-command';
import { bundleOf, testFolder } from '../../programs/export/export-fixture';

/** Variables with which no Python with PyTorch is found. */
const WITHOUT_TORCH = { ...process.env, SHARDLAB_TORCH_PYTHON: '', XDG_CACHE_HOME: '/nowhere' };

test('without PyTorch, files, syntax and launches are checked, and the dry start is named as not checked', async (context) => {
  const { report } = bundleOf(context, {}, { to: 'torchrun', machines: 2 });
  const check = await launchCheck(report.out, {}, { env: WITHOUT_TORCH });
  assert.equal(check.passed, true);
  assert.deepEqual([check.world, check.machines, check.dryStart], [4, 2, null]);
  assert.match(String(check), /✓ files {6}REPORT\.md: lists \d+ files, and all are here/);
  assert.match(String(check), /✓ launch {5}launch\.sh: starts 4 ranks on 2 machines/);
  assert.match(String(check), /· dry start {2}train\.py: not checked: there is no Python with PyTorch/);
});

/** What is done to a bundle, and what the check says. */
const BROKEN: Readonly<Record<string, readonly [string, (text: string) => string | null, RegExp]>> = {
  'a missing file': [
    'model.safetensors',
    () => null,
    /✗ files {6}model\.safetensors: is not here, but REPORT\.md/,
  ],
  'a script that bash cannot read': [
    'launch.sh',
    (text) => `${text}if then\n`,
    /✗ syntax {5}launch\.sh:\d+: bash does not read it: syntax error/,
  ],
  'a port above the largest one': [
    'launch.sh',
    (text) => text.replace(/29500/g, '95000'),
    /✗ launch {5}launch\.sh:\d+: --master-port: .*port of at most 65535/,
  ],
  'fewer machines than the bundle was made for': [
    'launch.sh',
    (text) => text.replace('--nnodes=2', '--nnodes=1'),
    /✗ launch {5}.*launches 2 ranks, but the bundle was made for 4/,
  ],
  'a bundle.json without facts': [
    'bundle.json',
    () => 'null\n',
    /✗ files {6}bundle\.json: has no machines, gpusPerMachine and config; export the bundle again/,
  ],
  'degrees that are no numbers': [
    'bundle.json',
    (text) => text.replace('"tp": 1', '"tp": "x"'),
    /✗ files {6}bundle\.json: has no machines, gpusPerMachine and config/,
  ],
  'an empty launch script': [
    'launch.sh',
    () => '',
    /✗ launch {5}launch\.sh: no launch file of this bundle starts a training; export the bundle again/,
  ],
  'JSON that is not whole': [
    'bundle.json',
    (text) => text.slice(0, -3),
    /✗ syntax {5}bundle\.json: is not JSON/,
  ],
};

for (const [name, [file, change, said]] of Object.entries(BROKEN)) {
  test(`${name} fails the check, which says what to do`, async (context) => {
    const { report } = bundleOf(context, {}, { to: 'torchrun', machines: 2 });
    const path = join(report.out, file);
    const changed = file.endsWith('.safetensors') ? null : change(readFileSync(path, 'utf8'));
    if (changed === null) rmSync(path);
    else writeFileSync(path, changed);
    const check = await launchCheck(report.out, {}, { env: WITHOUT_TORCH });
    assert.equal(check.passed, false);
    assert.match(String(check), said);
  });
}

test('a link to nothing fails the check, and is no error of the whole check', async (context) => {
  const { report } = bundleOf(context, {}, { to: 'torchrun', machines: 2 });
  symlinkSync('/nowhere', join(report.out, 'vocab.json'));
  symlinkSync('loop.sh', join(report.out, 'loop.sh'));
  const check = await launchCheck(report.out, {}, { env: WITHOUT_TORCH });
  assert.equal(check.passed, false);
  assert.match(String(check), /✗ files {6}vocab\.json: is a link to nothing; copy the file here/);
  assert.match(String(check), /✗ files {6}loop\.sh: is a link to nothing/);
});

test('a Python that cannot be started is named, and one that ends without an answer fails the check', async (context) => {
  const { report } = bundleOf(context, {}, { to: 'torchrun', machines: 2 });
  const checkWith = (SHARDLAB_TORCH_PYTHON: string) =>
    launchCheck(report.out, {}, { env: { ...process.env, SHARDLAB_TORCH_PYTHON } });
  const none = await checkWith('/nowhere/python');
  assert.match(
    String(none),
    /not checked: the Python \/nowhere\/python cannot be started \(spawn .* ENOENT\)/,
  );
  const silent = await checkWith('/bin/true');
  assert.equal(silent.passed, false);
  assert.match(
    String(silent),
    /✗ dry start {2}train\.py: Python ended before all checks were done: it ended with status 0/,
  );
});

test('a bundle of a program that builds the model itself has no dry start, and the check says what it checks', async (context) => {
  const llama = { kind: 'llama', layers: 2, dim: 64, heads: 4, vocab: 256, seq: 64 } as const;
  for (const to of ['torchtitan', 'swift'] as const) {
    const { report } = bundleOf(context, { model: llama }, { to });
    const text = String(await launchCheck(report.out, {}, { env: WITHOUT_TORCH }));
    const says = `not checked: is not here, because ${to} builds and trains the model itself: no step is tried, and only`;
    assert.ok(text.includes(says), text);
    assert.match(
      text,
      /passed, but no step was tried: nothing that can be checked without the 2 ranks is wrong/,
    );
  }
});

test('the command answers with status 0, 1 for a fault, and 2 for a folder that is not there', async (context) => {
  const { report } = bundleOf(context, {}, { to: 'torchrun' });
  const run = (...argv: readonly string[]) => shardlab(['launch-check', ...argv], { env: WITHOUT_TORCH });
  const { status, stdout } = await run(report.out, '--json');
  assert.equal(status, 0);
  assert.equal(JSON.parse(stdout).world, 2);
  rmSync(join(report.out, 'model.safetensors'));
  assert.equal((await run(report.out)).status, 1);
  const none = await run(join(report.out, 'nothing'));
  assert.equal(none.status, 2);
  assert.match(none.stderr, /is not a folder; give the folder that shardlab export wrote/);
  const outside = await run(report.out, '--rank', '2');
  assert.match(outside.stderr, /rank is 2, but the bundle has 2 ranks, 0 to 1/);
  const empty = await run(testFolder(context));
  assert.match(empty.stderr, /no launch file says how many ranks there are; give --world N/);
});
