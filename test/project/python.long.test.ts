import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { makeVenv } from '../../src/cli/install/make-venv';
import { importScript, type StepFailure } from './scripts';

interface Request {
  readonly purpose: 'run' | 'test';
  readonly state: string;
  readonly env: NodeJS.ProcessEnv;
  readonly patienceSeconds?: number;
}
interface Found {
  readonly python: string;
  readonly jupyter: string;
}

const folder = mkdtempSync(join(tmpdir(), 'shardlab-python-'));
after(() => rmSync(folder, { recursive: true, force: true }));

const base = basePython();
const skip = base === undefined ? 'there is no Python here (npm test --no-python)' : false;

test('without any Python the message says how to get one', async () => {
  const failure = await failureOf({ PATH: fresh('empty-path') });
  assert.match(failure.message, /No Python 3\.9 or newer was found/);
  assert.match(failure.advice.join('\n'), /apt-get install python3 python3-venv/);
});

test('on a Debian without python3-venv and pip the message gives the apt line', { skip }, async () => {
  const failure = await failureOf({ PATH: pathWith(DEBIAN_WITHOUT_VENV) });
  assert.match(failure.message, /ensurepip is not available \(python3-venv is not installed\)/);
  assert.match(failure.advice.join('\n'), /sudo apt-get install python3-venv/);
});

test('on a Debian with pip but without python3-venv, pip makes the environment', { skip }, async (t) => {
  const wheels = bundledWheels();
  if (wheels === undefined) return t.skip('this Python does not bring the wheel of pip');
  const path = pathWith(VENV_WITHOUT_PIP);
  const env = { PATH: path, PIP_NO_INDEX: '1', PIP_FIND_LINKS: wheels, PIP_CONFIG_FILE: '/dev/null' };
  const target = join(folder, 'by-outer-pip');
  const how = await makeVenv([join(path, 'python3')], target, { env });
  assert.match(how, /pip from outside/);
  assert.ok(existsSync(join(target, 'bin', 'pip')));
});

test('an unreachable index fails, and the message says what to do', { skip }, async () => {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  server.close();
  await once(server, 'close');
  const port = typeof address === 'object' ? address?.port : 0;
  const env = {
    PATH: pathWith('exec "$REAL" "$@"'),
    PIP_CONFIG_FILE: '/dev/null',
    PIP_INDEX_URL: `http://127.0.0.1:${port}/simple`,
    HOME: folder,
  };
  const failure = await failureOf(env);
  assert.match(failure.message, /pip did not install/);
  assert.match(failure.advice.join('\n'), /is the package index reachable/);
});

test('an index that accepts and never answers is abandoned', { skip }, async () => {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  // The server listens on TCP, so its address is not a pipe's name.
  const { port } = server.address() as AddressInfo;
  const env = {
    PATH: pathWith('exec "$REAL" "$@"'),
    PIP_CONFIG_FILE: '/dev/null',
    PIP_INDEX_URL: `http://127.0.0.1:${port}/simple`,
    PIP_DEFAULT_TIMEOUT: '180',
    HOME: folder,
  };
  const failure = await failureOf(env, { patienceSeconds: 2 });
  server.close();
  assert.match(failure.message, /did not answer within 2 s/);
});

test('a Python on the PATH with all packages is used, and nothing is made', { skip }, async () => {
  const state = fresh('state');
  const path = pathWith(`exec '${process.env.SHARDLAB_PYTHON}' "$@"`);
  const found = await ensure({ purpose: 'test', state, env: { PATH: path } });
  assert.deepEqual(readdirSync(state), []);
  assert.equal(found.jupyter, join(state, 'build', 'jupyter'));
});

test('the error of a SHARDLAB_PYTHON without packages gives the pip line that installs them', {
  skip,
}, async () => {
  const failure = await failureOf({
    PATH: process.env.PATH,
    SHARDLAB_PYTHON: `${pathWith('exec "$REAL" -S "$@"')}/python3`,
  });
  assert.match(failure.message, /SHARDLAB_PYTHON\) lacks jupyterlab/);
  assert.match(failure.advice.join('\n'), /-m pip install -r .*requirements\.txt/);
});

test('a SHARDLAB_PYTHON with all packages is used, and nothing is made', {
  skip,
}, async () => {
  const state = fresh('state');
  const found = await ensure({ purpose: 'test', state, env: process.env });
  assert.deepEqual(readdirSync(state), []);
  assert.equal(found.jupyter, join(state, 'build', 'jupyter'));
});

/** Answers like Debian's python3 without python3-venv and python3-pip. */
const DEBIAN_WITHOUT_VENV = `
case "$*" in
  "-m venv --without-pip"*) exec "$REAL" "$@";;
  "-m venv"*) echo "The virtual environment was not created successfully because ensurepip is not"
    echo "available.  On Debian/Ubuntu systems, you need to install the python3-venv package."; exit 1;;
  "-m virtualenv"*) echo "No module named virtualenv" >&2; exit 1;;
  "-m pip"*) echo "No module named pip" >&2; exit 1;;
  *) exec "$REAL" "$@";;
esac`;

/** The same with python3-pip. */
const VENV_WITHOUT_PIP = DEBIAN_WITHOUT_VENV.replace(/.*"-m pip".*\n/, '');

function ensure(request: Request): Promise<Found> {
  return importScript<{
    ensurePython(request: Request & { clone: string }, say: (text: string) => void): Promise<Found>;
  }>('python').then(({ ensurePython }) => ensurePython({ ...request, clone: request.state }, () => {}));
}

async function failureOf(
  env: NodeJS.ProcessEnv,
  options: Pick<Request, 'patienceSeconds'> = {},
): Promise<StepFailure> {
  const state = fresh('state');
  const failure = await ensure({ purpose: 'run', state, env, ...options }).then(
    () => assert.fail('it did not fail'),
    (error: StepFailure) => error,
  );
  assert.ok(Array.isArray(failure.advice), failure.stack);
  return failure;
}

function fresh(name: string): string {
  return mkdtempSync(join(folder, `${name}-`));
}

/** A folder for PATH whose only program is python3, this shell script; REAL is a bare Python. */
function pathWith(script: string): string {
  const path = fresh('path');
  const file = join(path, 'python3');
  writeFileSync(file, `#!/bin/sh\nREAL='${base}'\n${script}\n`);
  chmodSync(file, 0o755);
  return path;
}

/** The program from which the environment of SHARDLAB_PYTHON was made. */
function basePython(): string | undefined {
  const python = process.env.SHARDLAB_PYTHON;
  if (python === undefined) return undefined;
  const code = 'import sys, os; print(getattr(sys, "_base_executable", sys.executable))';
  const result = spawnSync(python, ['-c', code], { encoding: 'utf8' });
  return result.status === 0 ? result.stdout.trim() : undefined;
}

function bundledWheels(): string | undefined {
  const code = 'import ensurepip, os; print(os.path.join(os.path.dirname(ensurepip.__file__), "_bundled"))';
  const wheels = spawnSync(base ?? 'python3', ['-c', code], { encoding: 'utf8' }).stdout.trim();
  mkdirSync(folder, { recursive: true });
  return existsSync(wheels) && readdirSync(wheels).some((name) => name.startsWith('pip-'))
    ? wheels
    : undefined;
}
