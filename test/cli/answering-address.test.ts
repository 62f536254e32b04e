import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { answeringAddress } from '../../src/cli/lab/answering-address';

test('an address is given only when its server answers', async (context) => {
  const free = createServer().listen(0, '127.0.0.1');
  await once(free, 'listening');
  const { port } = free.address() as AddressInfo; // the server listens on TCP, so its address is not a pipe's name
  await once(free.close(), 'close');
  const url = `http://localhost:${port}/lab?token=abc`;
  let isGiven = false;
  const given = answeringAddress(url, new AbortController().signal).then((address) => {
    isGiven = true;
    return address;
  });
  // Two refused attempts take longer than one interval.
  await new Promise((resolve) => setTimeout(resolve, 250));
  assert.equal(isGiven, false);
  const server = createServer((_, response) => response.writeHead(403).end()).listen(port, '127.0.0.1');
  context.after(() => server.close());
  assert.equal(await given, url);
  const other = `http://no-such-host.invalid:${port}/lab`;
  assert.equal(await answeringAddress(other, new AbortController().signal), `http://127.0.0.1:${port}/lab`);
});

test('the wait for an answer ends with its signal', async () => {
  await assert.rejects(answeringAddress('http://127.0.0.1:9/', AbortSignal.timeout(50)), {
    name: 'AbortError',
  });
});
