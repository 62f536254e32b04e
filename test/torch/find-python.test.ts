import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { findTorch, readTorch, TESTED_TORCH, TORCH_PROBE } from '../../src/torch/find-python';
import { temporaryFolder } from '../session/job-fixture';
import { repositoryRoot } from '../support/paths';

/** Returns the error of a program that is given as the ranks' Python: a shell script, or no program at all. */
function refusal(context: TestContext, script: string | undefined, mode = 0o755): string {
  const { path } = temporaryFolder(context);
  const python = join(path, 'python');
  if (script !== undefined) {
    writeFileSync(python, `#!/bin/sh\n${script}\n`);
    chmodSync(python, mode);
  }
  try {
    findTorch(python, {});
  } catch (error) {
    assert.equal((error as { code?: string }).code, 'CONFIG', String(error));
    const { message } = error as Error;
    assert.match(
      message,
      /; run `npx shardlab engine torch`, or name another Python in SHARDLAB_TORCH_PYTHON or the option python$/,
    );
    return message.slice(0, message.indexOf(';')).replace(python, 'PYTHON');
  }
  return '';
}

test('a Python that cannot run ranks is refused with its path and the reason', (context) => {
  const said = "PYTHON cannot run ranks of engine 'torch': ";
  assert.equal(refusal(context, undefined), `${said}there is no such program`);
  assert.equal(refusal(context, 'exit', 0o644), `${said}it is not a program that this user may run`);
  assert.equal(
    refusal(context, 'echo "Node.js v20" >&2; exit 9'),
    `${said}it does not answer as a Python does (Node.js v20)`,
  );
  assert.match(refusal(context, 'echo hello'), /it does not answer as a Python does \(.*JSON/);
  assert.equal(refusal(context, `echo '{"missing": "it has no torch"}'`), `${said}it has no torch`);
  assert.match(refusal(context, `echo '{"torch": "2.1.0"}'`), /its torch is 2\.1\.0, and ranks need 2\.6/);
  const bare = `echo '{"torch": "2.13.0", "safetensors": false}'`;
  assert.match(refusal(context, bare), /it has no safetensors \(pip install safetensors\)/);
  assert.throws(() => findTorch('', {}), { code: 'CONFIG', message: /^python is empty; name the Python/ });
  assert.throws(() => findTorch(undefined, { SHARDLAB_TORCH_PYTHON: '/no/python' }), {
    code: 'CONFIG',
    message: /^\/no\/python cannot run ranks .*there is no such program/,
  });
});

/** Runs the probe in a folder with a file of the user; returns what is missing, or the line of an error. */
function probeBeside(context: TestContext, file: string, text = 'x = 1\n'): string {
  const { path } = temporaryFolder(context);
  mkdirSync(dirname(join(path, file)), { recursive: true });
  writeFileSync(join(path, file), text);
  const stdio = ['ignore', 'pipe', 'pipe'] as const;
  try {
    const said = execFileSync('python3', ['-c', TORCH_PROBE], {
      cwd: path,
      encoding: 'utf8',
      stdio: [...stdio],
    });
    return String(readTorch(said)).replace(path, 'HERE');
  } catch (error) {
    return (error as { stderr: string }).stderr.trim().replace(path, 'HERE');
  }
}

test('a file beside the notebook that hides torch, or a module of Python, is named', (context) => {
  for (const file of ['torch.py', join('torch', '__init__.py')]) {
    const reason = `its torch is HERE/${file}, which is not PyTorch: rename this file or its folder`;
    assert.equal(probeBeside(context, file), reason);
  }
  const hides = 'hides a module of the same name that PyTorch or Python has: rename it';
  assert.equal(
    probeBeside(context, 'json.py'),
    `AttributeError: module 'json' has no attribute 'dumps'; HERE/json.py ${hides}`,
  );
  assert.equal(
    probeBeside(context, join('json', '__init__.py'), 'raise ValueError("two\\nlines")'),
    `ValueError: two lines; HERE/json ${hides}`,
  );
  assert.match(probeBeside(context, 'json.py', 'x = ('), /^SyntaxError: .*; HERE\/json\.py hides a module/);
});

test('the torch that the doctor calls tested is the one that `shardlab engine torch` installs', () => {
  const requirements = readFileSync(join(repositoryRoot(), 'src', 'python', 'requirements.txt'), 'utf8');
  assert.ok(requirements.includes(`torch==${TESTED_TORCH}.`));
  const old = JSON.stringify({ torch: '2.5.1', python: '3.11.7', safetensors: true, cuda: null });
  assert.equal(readTorch(`${old}\n`), 'its torch is 2.5.1, and ranks need 2.6 or newer (tested: 2.13)');
});
