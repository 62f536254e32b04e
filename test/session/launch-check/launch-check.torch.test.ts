import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import type { TrainConfigInput } from '../../../src/config/train-config';
import { type LaunchCheckOptions, launchCheck } from '../../../src/session/launch-check/launch-check';
import { bundleOf, testFolder } from '../../programs/export/export-fixture';
import { repositoryRoot } from '../../support/paths';

const python = process.env.SHARDLAB_TORCH_PYTHON ?? '';
const skip = python === '' && 'SHARDLAB_TORCH_PYTHON names no Python with PyTorch';

const CLI = join(repositoryRoot(), 'build', 'src', 'cli', 'main.js');

/** Bytes of the optimizer's states of each rank: two moments of the parameters that it updates, and a counter per parameter. */
const ADAM_BYTES = 8;

for (const [strategy, shards] of Object.entries({ NO_SHARD: 1, ZERO_1: 4, FULL_SHARD: 4 } as const)) {
  test(`a bundle under ${strategy} trains two steps without values, and leaves nothing behind`, {
    skip,
  }, async (context) => {
    const config = { data: 'synthetic', accumulation: 2, parallel: { strategy } } as TrainConfigInput;
    const { report } = bundleOf(context, config, { to: 'torchrun', gpusPerMachine: 4 });
    const before = readdirSync(report.out, { recursive: true });
    const temporary = testFolder(context);
    const { TMPDIR = tmpdir() } = process.env;
    process.env.TMPDIR = temporary;
    context.after(() => {
      process.env.TMPDIR = TMPDIR;
    });
    const check = await launchCheck(report.out, { rank: 1 });
    assert.equal(check.passed, true, String(check));
    assert.deepEqual(readdirSync(report.out, { recursive: true }), before);
    assert.deepEqual(readdirSync(temporary), []);
    const { bytes, rank, world, collectives } = check.dryStart ?? assert.fail('it trains no step');
    assert.deepEqual([rank, world], [1, 4]);
    assert.ok(collectives.length > 0);
    const states = (ADAM_BYTES * numParameters(report.out)) / shards;
    const share = (bytes.optimizer ?? 0) / states;
    assert.ok(share > 0.8 && share < 1.2, `optimizer states: ${bytes.optimizer}, by the formula ${states}`);
  });
}

function numParameters(folder: string): number {
  const file = readFileSync(join(folder, 'model.safetensors'));
  const length = Number(file.readBigUInt64LE());
  return (file.length - 8 - length) / 4;
}

/** A change to a bundle that makes it fail. */
interface Fault {
  readonly to?: string;
  readonly config?: TrainConfigInput;
  readonly file?: string;
  readonly change?: (text: string) => string | null;
  readonly options?: LaunchCheckOptions;
  readonly says: RegExp;
}

const FAULTS: Readonly<Record<string, Fault>> = {
  'a syntax error in train.py': {
    file: 'train.py',
    change: (text) => text.replace('def main():', 'def main(:'),
    says: /✗ syntax {5}train\.py:\d+: Python does not read it: .*in `def main\(:`; correct this line/,
  },
  'an unknown option of torchrun': {
    file: 'launch.sh',
    change: (text) => text.replace('--nnodes=1', '--nnodes=1 --no-such-option=1'),
    says: /✗ parser {5}launch\.sh: torchrun does not accept the command/,
  },
  "a wrong key in Accelerate's YAML": {
    to: 'accelerate',
    file: 'accelerate_0.yaml',
    change: (text) => `${text}mixed_precison: bf16\n`,
    says: /✗ parser {5}accelerate_0\.yaml: Accelerate does not load it: .*mixed_precison/,
  },
  'ranks that the mesh does not divide': {
    config: { parallel: { tp: 2 } },
    options: { world: 3 },
    says: /✗ launch {5}bundle\.json: tp 2 x cp 1 x pp 1 does not divide 3 ranks; change the number of ranks/,
  },
  'a mesh of more ranks than the world has': {
    config: { parallel: { strategy: 'HYBRID_SHARD', mesh: { dpReplicate: 2, dpShard: 1 } } },
    options: { world: 1 },
    file: 'train.py',
    change: (text) => text.replace('!= world:', '< world:'),
    says: /✗ dry start {2}train\.py:\d+: .*; the number of ranks does not fit the degrees in the script/,
  },
  'missing weights': {
    file: 'model.safetensors',
    change: () => null,
    says: /✗ dry start {2}train\.py:\d+: there is no file model\.safetensors; copy it into the bundle/,
  },
  'a script that ends its process': {
    file: 'train.py',
    change: (text) => `import os\nos._exit(0)\n${text}`,
    says: /✗ dry start {2}train\.py: Python ended before all checks were done: it ended with status 0/,
  },
  'weights without a header': {
    file: 'model.safetensors',
    change: () => '\x04\0\0\0\0\0\0\0{{{{',
    says: /✗ dry start {2}train\.py:\d+: ValueError: model\.safetensors has no header of safetensors: .*; export it again/,
  },
  'a start that takes too long': {
    file: 'train.py',
    change: (text) => `import time\ntime.sleep(600)\n${text}`,
    options: { timeout: 20 },
    says: /✗ dry start {2}train\.py: it did not end within 20 s; give more time/,
  },
};

for (const [name, { to = 'torchrun', config = {}, file, change, options, says }] of Object.entries(FAULTS)) {
  test(`the check names ${name}`, { skip }, async (context) => {
    const { report } = bundleOf(context, { data: 'synthetic', ...config }, { to });
    if (file !== undefined && change !== undefined) {
      const path = join(report.out, file);
      const changed = change(file.endsWith('.safetensors') ? '' : readFileSync(path, 'utf8'));
      if (changed === null) rmSync(path);
      else writeFileSync(path, changed);
    }
    const check = await launchCheck(report.out, options);
    assert.equal(check.passed, false, String(check));
    assert.match(String(check), says);
    assert.doesNotMatch(String(check), /Traceback/);
  });
}

test('a script that writes into its own folder changes nothing in the bundle, and what it starts ends with it', {
  skip,
}, async (context) => {
  const { report } = bundleOf(context, { data: 'synthetic' }, { to: 'torchrun' });
  const path = join(report.out, 'train.py');
  const pidFile = join(testFolder(context), 'pid');
  const lines = [
    'import os, subprocess',
    "open('REPORT.md', 'a').write('more'); open('README.md', 'w').write('less'); open('new.txt', 'w').write('new')",
    "open(os.path.join('data', 'cache'), 'w').write('new')",
    `open(${JSON.stringify(pidFile)}, 'w').write(str(subprocess.Popen(['sleep', '600']).pid))`,
  ];
  mkdirSync(join(report.out, 'data'), { recursive: true });
  writeFileSync(path, `${lines.join('\n')}\n${readFileSync(path, 'utf8')}`);
  const contents = () =>
    readdirSync(report.out, { recursive: true, encoding: 'utf8' }).map((name) => {
      const file = join(report.out, name);
      return [name, statSync(file).isFile() ? readFileSync(file).toString('base64') : ''];
    });
  const before = contents();
  const check = await launchCheck(report.out);
  assert.equal(check.passed, true, String(check));
  assert.deepEqual(contents(), before);
  await ended(Number(readFileSync(pidFile, 'utf8')));
});

/** Waits for the end of a process, for at most ten seconds. */
async function ended(pid: number): Promise<void> {
  for (let i = 0; i < 100; i++) {
    if (!isAlive(pid)) return;
    await setTimeout(100);
  }
  assert.fail(`process ${pid} still runs`);
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
  } catch {
    return false;
  }
  return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8')); // a container may collect no zombies
}

test('Python ends, and its folder is deleted, if the process that checks is killed', {
  skip,
}, async (context) => {
  const { report } = bundleOf(context, { data: 'synthetic' }, { to: 'torchrun' });
  const path = join(report.out, 'train.py');
  const temporary = testFolder(context);
  const pidFile = join(testFolder(context), 'pid');
  const wait = `import os, time\nopen(${JSON.stringify(pidFile)}, 'w').write(str(os.getpid()))\ntime.sleep(600)\n`;
  writeFileSync(path, `${wait}${readFileSync(path, 'utf8')}`);
  const cli = spawn(process.execPath, [CLI, 'launch-check', report.out], {
    env: { ...process.env, TMPDIR: temporary },
    stdio: 'ignore',
  });
  context.after(() => cli.kill('SIGKILL'));
  for (let i = 0; i < 300 && !existsSync(pidFile); i++) await setTimeout(100);
  cli.kill('SIGKILL');
  await ended(Number(readFileSync(pidFile, 'utf8')));
  assert.deepEqual(readdirSync(temporary), []);
});
