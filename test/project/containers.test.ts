import assert from 'node:assert/strict';
import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { parse } from 'yaml';
import { repositoryRoot } from '../support/paths';

const ROOT = repositoryRoot();
const read = (name: string): string => readFileSync(join(ROOT, name), 'utf8');

/** The requirements of `npm start`, a line each. */
const requirements = read('scripts/python/requirements.txt')
  .split('\n')
  .filter((line) => line !== '' && !line.startsWith('#'));

test("Binder's environment has the requirements of npm start, and a script that can be run", () => {
  const { dependencies } = parse(read('binder/environment.yml')) as { dependencies: readonly string[] };
  assert.deepEqual(
    requirements.filter((line) => !dependencies.includes(line)),
    [],
  );
  assert.ok((statSync(join(ROOT, 'binder', 'postBuild')).mode & 0o111) !== 0);
});

test('the dev container builds the clone and forwards the port of JupyterLab', () => {
  const { postCreateCommand, forwardPorts } = JSON.parse(read('.devcontainer/devcontainer.json'));
  assert.equal(postCreateCommand, 'npm ci && npm run build');
  assert.deepEqual(forwardPorts, [8888]);
});

test('the image contains the wheel, which is all that its context has, and starts shardlab lab as a user', () => {
  const lines = read('Dockerfile').split('\n');
  assert.ok(lines.includes('COPY build/dist/*.whl /tmp/'));
  assert.deepEqual(read('.dockerignore').trim().split('\n'), ['*', '!build/dist/*.whl']);
  assert.ok(lines.indexOf('USER learner') > lines.findIndex((line) => line.startsWith('RUN pip install')));
  const command = lines.find((line) => line.startsWith('CMD '))?.slice('CMD '.length) ?? '';
  assert.deepEqual(JSON.parse(command).slice(0, 2), ['shardlab', 'lab']);
});
