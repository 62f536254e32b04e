import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { test } from 'node:test';
import { freePort } from '../../src/cli/lab/free-port';

test('a port in use is skipped for the next free port', async () => {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  // The server listens on TCP, so its address is not a pipe's name.
  const { port } = server.address() as AddressInfo;
  const free = await freePort(port, '127.0.0.1');
  assert.ok(free !== undefined && free > port && free < port + 50, `${free}`);
  server.close();
  await once(server, 'close');
  assert.equal(await freePort(port, '127.0.0.1'), port);
});
