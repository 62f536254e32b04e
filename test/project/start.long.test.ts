import assert from 'node:assert/strict';
import { once } from 'node:events';
import { statSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { repositoryRoot } from '../support/paths';
import { childrenOf, endOf, isAlive, noPython, start, startLab } from './lab';

const LOG = join(repositoryRoot(), 'build', 'jupyter.log');

test('npm start takes the next port if its port is in use, prints an address with a token, requires the token, and leaves no process after Ctrl-C', {
  skip: noPython,
}, async (context) => {
  const blocker = createServer().listen(0, '127.0.0.1');
  context.after(() => blocker.close());
  await once(blocker, 'listening');
  // The server listens on TCP, so its address is not a pipe's name.
  const { port } = blocker.address() as AddressInfo;
  writeFileSync(LOG, 'a log of an earlier version');
  const lab = await startLab(context, ['--port', String(port)]);
  assert.match(lab.output(), new RegExp(`port ${port} is in use; JupyterLab uses port \\d+`));
  assert.notEqual(new URL(lab.url).port, String(port));
  assert.match(lab.url, /\?token=\w{20,}/);
  assert.equal(statSync(LOG).mode & 0o777, 0o600, 'the log has the token');
  const { origin } = new URL(lab.url);
  assert.equal((await fetch(`${origin}/api/status`)).status, 403);
  assert.equal((await fetch(`${origin}/api/status?${lab.url.split('?')[1]}`)).status, 200);
  const notices = `/lab/api/settings/@jupyterlab/apputils-extension:notification?${lab.url.split('?')[1]}`;
  // What the lab would request from the network by itself.
  const { schema } = (await (await fetch(origin + notices)).json()) as Settings;
  assert.deepEqual(
    [schema.properties.fetchNews?.default, schema.properties.checkForUpdates?.default],
    ['false', false],
  );
  const server = childrenOf(lab.child.pid);
  assert.equal(server.length, 1);
  lab.child.kill('SIGINT');
  const [code] = await once(lab.child, 'close');
  assert.equal(code, 0);
  assert.match(lab.output(), /ending JupyterLab and its kernels … ended/);
  assert.deepEqual(server.filter(isAlive), []);
});

test('JupyterLab ends by itself when npm start is killed with -9', { skip: noPython }, async (context) => {
  const lab = await startLab(context, ['--port', '18951']);
  const [server] = childrenOf(lab.child.pid);
  assert.ok(server !== undefined);
  lab.child.kill('SIGKILL');
  assert.ok(await endOf(server, 120));
});

test('a wrong option ends with status 2 and prints the usage', async (context) => {
  const child = start(context, ['--prot', '1']);
  let stderr = '';
  child.stderr?.on('data', (text) => {
    stderr += text;
  });
  const [code] = await once(child, 'close');
  assert.equal(code, 2);
  assert.match(stderr, /--prot[\s\S]*--port N/);
});

/** The part of a plugin's settings that tests read. */
interface Settings {
  readonly schema: { readonly properties: Readonly<Record<string, { readonly default: unknown }>> };
}
