import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { test } from 'node:test';
import { checkNode } from '../../src/cli/doctor/checks';
import { shardlab } from './run-command';

test('the doctor names every part, present or missing, and says what to do about a missing part', async () => {
  const { stdout } = await shardlab(['doctor', '--json']);
  const { checks } = JSON.parse(stdout) as { checks: { name: string; status: string; advice?: string }[] };
  const names = checks.map(({ name }) => name);
  for (const name of [
    'Node',
    'engine wasm',
    'engine torch',
    'engine tensorflow',
    'shared memory',
    'Jupyter',
    'kernelspec',
    'GPU',
  ]) {
    assert.ok(names.includes(name), `${name} of ${names}`);
  }
  for (const check of checks) if (check.status === 'bad') assert.ok(check.advice, check.name);
});

test('without a Python on the PATH the doctor says so and continues', async () => {
  const env = { PATH: '/nowhere', HOME: '/nowhere', SHARDLAB_PYTHON: '/nowhere/python' };
  const { stdout } = await shardlab(['doctor'], { env });
  assert.match(stdout, /Jupyter +\/nowhere\/python does not run\n +→ install Python 3/);
  assert.match(stdout, /engine torch +no Python with PyTorch.*\n +→ npx shardlab engine torch/);
});

test('a Node that is too old gets the status bad', () => {
  assert.equal(checkNode('18.20.1').status, 'bad');
  assert.equal(checkNode('20.18.0').status, 'bad');
  assert.equal(checkNode('20.19.0').status, 'good');
  assert.equal(checkNode('24.1.0').status, 'good');
});

test('of Node 20, which works, the doctor says in a sentence that it ended', () => {
  assert.equal(
    checkNode('20.20.2').advice,
    'Node 20 works here, but it ended on 2026-04-30 and gets no security updates; Node 22, 24 and 26 are tested too',
  );
  for (const version of ['22.12.0', '24.1.0', '26.0.0']) assert.equal(checkNode(version).advice, undefined);
});

test('an address that answers is reported with its time; an address that does not answer gives status 1', async () => {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  // The server listens on TCP, so its address is not a pipe's name.
  const { port } = server.address() as AddressInfo;
  const open = await shardlab(['doctor', '--reach', `127.0.0.1:${port}`]);
  assert.equal(open.status, 0);
  assert.match(open.stdout, /answers after \d+ ms/);
  server.close();
  await once(server, 'close');
  const closed = await shardlab(['doctor', '--reach', `127.0.0.1:${port}`]);
  assert.equal(closed.status, 1);
  assert.match(closed.stdout, /ECONNREFUSED[\s\S]*→ nothing listens/);
});

test('a measurement beside an address is bad usage', async () => {
  const { status, stderr } = await shardlab(['doctor', '--reach', 'localhost:80', '--calibrate']);
  assert.equal(status, 2);
  assert.match(stderr, /--reach and --calibrate/);
});

test('an address without a port is bad input', async () => {
  const { status, stderr } = await shardlab(['doctor', '--reach', 'localhost']);
  assert.equal(status, 2);
  assert.match(stderr, /give HOST:PORT/);
});
