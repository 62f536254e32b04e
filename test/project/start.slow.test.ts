import assert from 'node:assert/strict';
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import { afterEach, test } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { repositoryRoot } from '../support/paths';

const skip =
  process.env.SHARDLAB_PYTHON === undefined ? 'there is no Python here (npm test --no-python)' : false;
const ROOT = repositoryRoot();
const running: ChildProcess[] = [];

afterEach(() => {
  for (const child of running.splice(0)) child.kill('SIGKILL');
});

test('npm start takes the next port if its port is in use, prints an address with a token, requires the token, and leaves no process after Ctrl-C', {
  skip,
}, async (context) => {
  const blocker = createServer().listen(0, '127.0.0.1');
  context.after(() => blocker.close());
  await once(blocker, 'listening');
  // The server listens on TCP, so its address is not a pipe's name.
  const { port } = blocker.address() as AddressInfo;
  const lab = await startLab(['--port', String(port)]);
  assert.match(lab.output(), new RegExp(`port ${port} is in use; JupyterLab uses port \\d+`));
  assert.notEqual(new URL(lab.url).port, String(port));
  assert.match(lab.url, /\?token=\w{20,}/);
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

test('JupyterLab ends by itself when npm start is killed with -9', { skip }, async () => {
  const lab = await startLab(['--port', '18951']);
  const [server] = childrenOf(lab.child.pid);
  assert.ok(server !== undefined);
  lab.child.kill('SIGKILL');
  assert.ok(await endOf(server, 120));
});

test('a wrong option ends with status 2 and prints the usage', async () => {
  const child = start(['--prot', '1']);
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

interface Lab {
  readonly child: ChildProcess;
  readonly url: string;
  output(): string;
}

async function startLab(args: readonly string[]): Promise<Lab> {
  const child = start(['--no-browser', ...args]);
  let output = '';
  const url = await new Promise<string>((resolve, reject) => {
    const read = (text: Buffer): void => {
      output += text;
      const found = /JupyterLab: (\S+)/.exec(output)?.[1];
      if (found !== undefined) resolve(found);
    };
    child.stdout?.on('data', read);
    child.stderr?.on('data', read);
    child.once('close', (code) => reject(new Error(`ended with ${code}:\n${output}`)));
  });
  return { child, url, output: () => output };
}

function start(args: readonly string[]): ChildProcess {
  const child = spawn(process.execPath, [join(ROOT, 'scripts', 'start.mjs'), ...args], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  running.push(child);
  return child;
}

interface Process {
  readonly pid: number;
  readonly parent: number;
  readonly isDead: boolean;
}

function processes(): readonly Process[] {
  const listed = spawnSync('ps', ['-axo', 'pid=,ppid=,stat='], { encoding: 'utf8' })
    .stdout.trim()
    .split('\n');
  return listed.map((line) => {
    const [pid, parent, state = ''] = line.trim().split(/\s+/);
    return { pid: Number(pid), parent: Number(parent), isDead: state.startsWith('Z') };
  });
}

function childrenOf(pid: number | undefined): readonly number[] {
  return processes()
    .filter(({ parent }) => parent === pid)
    .map((child) => child.pid);
}

function isAlive(pid: number): boolean {
  return processes().some((process) => process.pid === pid && !process.isDead);
}

/** Only a parent gets the event of a process's end; others have to poll. */
async function endOf(pid: number, seconds: number): Promise<boolean> {
  const deadline = performance.now() + seconds * 1e3;
  while (isAlive(pid) && performance.now() < deadline) await setTimeout(100);
  return !isAlive(pid);
}
