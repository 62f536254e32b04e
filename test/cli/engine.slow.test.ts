import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { downloadNotices, showPip } from '../../src/cli/engine/command';
import { WHOLE_SETTINGS } from '../../src/config/setting-table';
import { findTorch, torchEnvironment } from '../../src/torch/find-python';
import { repositoryRoot } from '../support/paths';
import { type Ran, shardlab } from './run-command';

const folder = mkdtempSync(join(tmpdir(), 'shardlab-engine-'));
after(() => rmSync(folder, { recursive: true, force: true }));

/** What the fake Python does in place of a real one. */
interface Fake {
  readonly version?: string;
  readonly cuda?: string;
  /** Shell lines for `-m venv FOLDER`; $HERE is the fake's own path. */
  readonly venv?: string;
  /** Shell lines for `pip install`; $ROOT is the environment. */
  readonly install?: string;
  /** Shell lines after the versions are printed: the import of torch. */
  readonly look?: string;
}

const MAKE_VENV = 'mkdir -p "$FOLDER/bin"; cp "$0" "$FOLDER/bin/python"';
const INSTALL = 'echo "Requirement already satisfied: pip"; touch "$ROOT/torch"';

/** A machine with one Python, which is a shell script: nothing is installed, and nothing is downloaded. */
function machine({ version = '3.12.1', cuda, venv = MAKE_VENV, install = INSTALL, look = '' }: Fake = {}) {
  const home = mkdtempSync(join(folder, 'home-'));
  const calls = join(home, 'calls');
  const script = `#!/bin/sh
ROOT=$(dirname "$(dirname "$0")")
echo "$*" | head -n 1 >> '${calls}'
case "$*" in
  *"-m venv --without-pip"*) exit 1;;
  *"-m venv "*) FOLDER="$3"; ${venv};;
  *"pip --version"*) echo "pip 24.3 from here (python 3.12)";;
  *"pip install"*) ${install};;
  *importlib.metadata*|*"from importlib import metadata"*)
    echo '{"prefix": "/fake", "version": "${version}", "packages": {}}';;
  *find_spec*)
    [ -e "$ROOT/torch" ] || { echo '{"missing": "it has no torch"}'; exit 0; }
    echo '{"torch": "2.13.0", "cuda": ${cuda === undefined ? 'null' : `"${cuda}"`}, "python": "${version}", "safetensors": true}'
    case "$*" in *"import torch"*) ${look === '' ? ':' : look};; esac;;
  *) exit 1;;
esac
`;
  const bin = join(home, 'bin');
  mkdirSync(bin);
  writeFileSync(join(bin, 'python3'), script);
  chmodSync(join(bin, 'python3'), 0o755);
  const env = { PATH: `${bin}:/usr/bin:/bin`, HOME: home, XDG_CACHE_HOME: join(home, 'cache') };
  return {
    home,
    env,
    environment: torchEnvironment(env),
    engine: (...args: readonly string[]): Promise<Ran> => shardlab(['engine', ...args], { env, cwd: home }),
    installs: () =>
      readFileSync(calls, 'utf8')
        .split('\n')
        .filter((line) => line.includes('pip install')),
  };
}

const isLinuxX64 = process.platform === 'linux' && process.arch === 'x64';

test('engine torch makes the environment that ranks look for, from the requirements of the Python package', async () => {
  const { engine, env, environment, installs } = machine();
  assert.throws(() => findTorch(undefined, env), /none is known: run `npx shardlab engine torch`/);
  const { status, stdout, stderr } = await engine('torch', '--python', 'bin/python3', '--json');
  assert.equal(status, 0, stderr);
  const python = join(environment, 'bin', 'python');
  assert.deepEqual(JSON.parse(stdout), { environment, python, torch: '2.13.0', cuda: null, ready: true });
  assert.equal(findTorch(undefined, env), python);
  assert.equal(installs().length, 1);
  assert.match(
    installs()[0] ?? '',
    /^-I -m pip install .*-r \S+\/src\/python\/requirements\.txt -r \S+\/requirements-accelerate\.txt$/,
  );
  if (isLinuxX64) assert.match(stderr, /527 MB of torch and about 2\.20 GB of CUDA libraries/);
  assert.match(stderr, /^accelerate, with requirements: about 7\.00 MB$/m);
});

test('a second call says that the environment is ready, and installs nothing', async () => {
  const { engine, environment, installs } = machine();
  await engine('torch');
  const { status, stdout, stderr } = await engine('torch', '--python', 'bin/python3');
  assert.equal(status, 0);
  assert.equal(stdout, `ready: torch 2.13.0 (without CUDA) in ${environment}\n`);
  assert.match(stderr, /--python has no effect/);
  assert.equal(installs().length, 1);
});

test('--deepspeed adds DeepSpeed to an environment, which then stays', async () => {
  const { engine, installs } = machine();
  await engine('torch');
  assert.equal((await engine('torch', '--deepspeed')).status, 0);
  assert.match(
    installs()[1] ?? '',
    /-r \S+requirements\.txt -r \S+requirements-accelerate\.txt -r \S+requirements-deepspeed\.txt$/,
  );
  for (const again of [['--deepspeed'], []]) await engine('torch', ...again);
  assert.equal(installs().length, 2);
});

test('after a failed pip ranks find no environment, and the next call continues in it', async () => {
  const fails =
    '[ -e "$ROOT/tried" ] || { touch "$ROOT/tried" "$ROOT/torch"; echo "no route" >&2; exit 1; };';
  const { engine, env, environment, installs } = machine({ install: `${fails} ${INSTALL}` });
  const failed = await engine('torch');
  assert.equal(failed.status, 1);
  assert.match(
    failed.stderr,
    /pip did not install torch, numpy, safetensors and accelerate:\nno route\n {2}→ is the package index/,
  );
  // The environment's torch is there, but nobody knows whether it is whole.
  assert.throws(() => findTorch(undefined, env), new RegExp(`${environment} is not complete`));
  const next = await engine('torch');
  assert.equal(next.status, 0);
  assert.match(next.stderr, /continuing in /);
  assert.equal(installs().length, 2);
  assert.doesNotThrow(() => findTorch(undefined, env));
});

test('Ctrl-C ends pip, and leaves no environment that ranks take for complete', async () => {
  const waits =
    'touch "$ROOT/torch"; echo "Downloading torch.whl (1 MB)"; echo $$ > "$ROOT/pip"; exec sleep 600';
  const { env, home, environment } = machine({ install: waits });
  const command = join(repositoryRoot(), 'build', 'src', 'cli', 'main.js');
  const child: ChildProcess = spawn(process.execPath, [command, 'engine', 'torch'], { env, cwd: home });
  let stderr = '';
  child.stderr?.on('data', (text) => {
    stderr += text;
  });
  const pidFile = join(environment, 'pip');
  while (!existsSync(pidFile) || readFileSync(pidFile, 'utf8') === '') {
    assert.equal(child.exitCode, null, stderr);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  child.kill('SIGINT');
  const [code] = await once(child, 'close');
  assert.equal(code, 1);
  assert.match(stderr, /stopped; .* is not complete.*`npx shardlab engine torch` continues/);
  assert.throws(() => process.kill(Number(readFileSync(pidFile, 'utf8')), 0), { code: 'ESRCH' });
  assert.throws(() => findTorch(undefined, env), /is not complete/);
});

test('an environment of other requirements gets what it lacks, named with its size, and keeps DeepSpeed', async () => {
  const { engine, environment, installs } = machine();
  await engine('torch', '--deepspeed');
  const mark = join(environment, '.shardlab-complete');
  const marked = readFileSync(mark, 'utf8');
  writeFileSync(mark, marked.replaceAll(/^(#|accelerate).*\n/gm, ''));
  const { status, stderr } = await engine('torch');
  assert.equal(status, 0);
  assert.match(stderr, /\/torch has no accelerate==[\d.]+: pip adds what is missing/);
  assert.match(stderr, /^accelerate, with requirements: about 7\.00 MB$/m);
  assert.doesNotMatch(stderr, /of torch/);
  assert.match(installs()[1] ?? '', /requirements-deepspeed\.txt$/);
  assert.equal(readFileSync(mark, 'utf8'), marked);
  writeFileSync(mark, 'torch==2.6.0\n');
  const old = await engine('torch');
  assert.match(old.stderr, /has no torch==[\d.]+, numpy/);
  if (isLinuxX64) assert.match(old.stderr, /527 MB of torch/);
  assert.equal(installs().length, 3);
});

test('the error of a Python without venv gives the remedy once', async () => {
  const venv = 'echo "The virtual environment was not created because ensurepip is not available."; exit 1';
  const { engine, environment } = machine({ venv });
  const { status, stderr } = await engine('torch', '--python', 'bin/python3');
  assert.equal(status, 1);
  assert.match(stderr, /ensurepip is not available \(python3-venv is not installed\)/);
  assert.equal(stderr.match(/sudo apt-get install python3-venv/g)?.length, 1);
  assert.match(stderr, /--python \/path\/to\/python/);
  assert.ok(!existsSync(environment));
});

test('a Python that is too old, or does not run, is bad input', async () => {
  const { engine } = machine({ version: '3.9.2' });
  const old = await engine('torch', '--python', 'bin/python3');
  assert.equal(old.status, 2);
  assert.match(old.stderr, /is Python 3\.9\.2; torch needs 3\.10 or newer/);
  const none = await engine('torch', '--python', '/nowhere/python');
  assert.equal(none.status, 2);
  assert.match(none.stderr, /\/nowhere\/python does not run/);
});

test('with --cuda a torch without CUDA is an error, and one with CUDA is named', async () => {
  const cpu = await machine().engine('torch', '--cuda');
  assert.equal(cpu.status, 2);
  assert.match(cpu.stderr, isLinuxX64 ? /torch 2\.13\.0, which is built without CUDA/ : /CUDA/);
  if (!isLinuxX64) return;
  const gpu = await machine({ cuda: '13.0' }).engine('torch', '--cuda', '--json');
  assert.equal(JSON.parse(gpu.stdout).cuda, '13.0');
});

test('the size of a CUDA build is said before the download, and CUDA is refused where no build has it', () => {
  const torch = ['torch==2.13.0', 'safetensors==0.8.0'];
  const [notice = ''] = downloadNotices(torch, 'linux-x64', false);
  assert.match(notice, /only the CUDA build .* for linux-x64.*PIP_EXTRA_INDEX_URL=/);
  assert.match(downloadNotices(torch, 'linux-x64', true).join(), /^pip downloads 527 MB of torch/);
  assert.deepEqual(downloadNotices(torch, 'darwin-arm64', false), []);
  const both = ['accelerate==1.15.0', 'deepspeed==0.19.8'];
  assert.match(downloadNotices(both, 'linux-x64', false).join(), /^accelerate and deepspeed, .* 13\.0 MB$/);
  assert.throws(
    () => downloadNotices(torch, 'darwin-arm64', true),
    /no torch with CUDA for darwin-arm64; leave --cuda out/,
  );
});

test("pip's lines become a bar per file that it downloads, and the time while it installs", () => {
  let time = 0;
  const shown: string[] = [];
  const clock = { now: () => time, every: () => () => undefined };
  const line = { isNotebook: false, show: (text: string) => shown.push(text), end: () => undefined };
  const progress = showPip({ clock, line });
  progress.line('Collecting torch==2.13.0 (from -r requirements.txt (line 2))');
  progress.line('  Downloading torch-2.13.0-cp312-cp312-linux_x86_64.whl.metadata (28 kB)');
  progress.line('  Downloading torch-2.13.0-cp312-cp312-linux_x86_64.whl (527 MB)');
  time += 10;
  progress.line('Progress 105400000 of 527000000');
  progress.line('Installing collected packages: torch');
  progress.end();
  assert.deepEqual(shown, [
    'downloading torch-2.13.0-cp312-cp312-linux_x86_64.whl (527 MB): 105 MB of 527 MB, 20%, about 40 s left',
  ]);
});

test('engine lists the engines, whether they are ready, and how to add what is missing', async () => {
  const { engine } = machine();
  const before = JSON.parse((await engine('--json')).stdout).engines;
  assert.deepEqual(
    before.map(({ name, ready }: { name: string; ready: boolean }) => [name, ready]),
    [
      ['wasm', true],
      ['torch', false],
    ],
  );
  assert.match(before[1].advice, /npx shardlab engine torch/);
  await engine('torch');
  assert.match((await engine()).stdout, /✓ engine torch +torch 2\.13\.0, Python 3\.12\.1/);
});

test('engine --settings says of every setting what ranks of PyTorch do with it', async () => {
  const { engine } = machine();
  const { settings } = JSON.parse((await engine('--settings', '--json')).stdout);
  assert.equal(settings.length, WHOLE_SETTINGS.length);
  for (const { setting, support, reason } of settings) {
    assert.equal(support === 'done', reason === undefined, setting);
  }
  const { stdout } = await engine('torch', '--settings');
  assert.match(stdout, /^mixedPrecision\.keepLowPrecisionGrads +✗ refused +fully_shard converts gradients/m);
  assert.match(stdout, /^gradScaler +✓ done$/m);
  assert.match(stdout, /^batch +✓ done$/m);
});

test('an unknown engine and options of another engine are bad usage', async () => {
  const { engine } = machine();
  assert.match((await engine('troch')).stderr, /did you mean torch\?/);
  for (const args of [['troch'], ['--cuda'], ['wasm', '--python', 'x'], ['torch', '--cuda', '--settings']]) {
    assert.equal((await engine(...args)).status, 2, args.join(' '));
  }
});

test('the doctor names torch, CUDA, NCCL and GPUs by one import', async () => {
  const look = `echo '{"nccl": "2.29.7", "gpus": ["NVIDIA H100"]}'`;
  const { engine, env } = machine({ cuda: '13.0', look });
  await engine('torch');
  const { stdout } = await shardlab(['doctor'], { env });
  assert.match(stdout, /✓ engine torch +torch 2\.13\.0, Python 3\.12\.1 \(.*\/torch\/bin\/python\)/);
  assert.match(stdout, /✓ torch's GPUs +NVIDIA H100 \(CUDA 13\.0, NCCL 2\.29\.7\)/);
});

test('the doctor reports a torch whose import fails, and a named Python without torch', async () => {
  const { engine, env, home } = machine({ look: 'echo "libcudart.so.13: no such file" >&2; exit 1' });
  await engine('torch');
  const failed = await shardlab(['doctor', '--json'], { env });
  const row = (ran: Ran, name: string) =>
    JSON.parse(ran.stdout).checks.find((check: { name: string }) => check.name === name);
  assert.equal(row(failed, "torch's GPUs").status, 'bad');
  assert.match(row(failed, "torch's GPUs").found, /libcudart\.so\.13/);
  const named = { ...env, SHARDLAB_TORCH_PYTHON: join(home, 'bin', 'python3') };
  const bare = await shardlab(['doctor', '--json'], { env: named });
  assert.match(row(bare, 'engine torch').found, /it has no torch/);
  assert.match(row(bare, 'engine torch').advice, /SHARDLAB_TORCH_PYTHON/);
});
