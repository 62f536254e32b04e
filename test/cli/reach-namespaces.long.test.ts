import assert from 'node:assert/strict';
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { repositoryRoot } from '../support/paths';
import { makeNamespaces, type Namespaces } from '../torch/namespaces';

const MAIN = join(repositoryRoot(), 'build', 'src', 'cli', 'main.js');
const spaces = makeNamespaces(2);
after(() => {
  if (typeof spaces !== 'string') spaces.remove();
});

/** Starts a program on a host. */
function start({ hosts }: Namespaces, host: number, ...words: readonly string[]): ChildProcess {
  const [file = '', ...args] = [...(hosts[host]?.run ?? []), ...words];
  return spawn(file, args, { stdio: ['ignore', 'pipe', 'pipe'] });
}

async function outputOf(child: ChildProcess): Promise<string> {
  let text = '';
  for (const stream of [child.stdout, child.stderr]) stream?.on('data', (part) => (text += part));
  await once(child, 'close');
  return text;
}

/** Runs `ip` on a host. */
function ip({ hosts }: Namespaces, host: number, ...words: readonly string[]): void {
  const [file = '', ...args] = [...(hosts[host]?.run ?? []), 'ip', ...words];
  execFileSync(file, args);
}

async function reach(from: Namespaces, address: string) {
  const text = await outputOf(start(from, 1, process.execPath, MAIN, 'doctor', '--reach', address, '--json'));
  const { checks } = JSON.parse(text);
  return { ...checks[0], ...checks[0].facts };
}

const LISTEN = "require('node:net').createServer().listen(12345, () => console.log('ready'))";

test('between two hosts, a late machine 0, a firewall, a missing machine and a missing network have different answers', async (context) => {
  if (typeof spaces === 'string') return context.skip(spaces);
  const [zero, one] = spaces.hosts.map(({ address }) => address) as [string, string];
  const before = await reach(spaces, `${zero}:12345`);
  assert.equal(before.outcome, 'refused');
  assert.deepEqual([before.interface, before.source], [spaces.interface, one]);

  const server = start(spaces, 0, process.execPath, '-e', LISTEN);
  try {
    // It has a stdout, because `start` asks for one.
    await once(server.stdout as NonNullable<typeof server.stdout>, 'data');
    assert.equal((await reach(spaces, `${zero}:12345`)).outcome, 'open');
    // Machine 0 gets the packets and cannot answer, as behind a firewall.
    ip(spaces, 0, 'route', 'add', 'blackhole', `${one}/32`);
    const silent = await reach(spaces, `${zero}:12345`);
    assert.equal(silent.outcome, 'silent');
    assert.match(silent.advice, /^a firewall drops the packets/);
    const waiting = start(spaces, 1, process.execPath, MAIN, 'doctor', '--reach', `${zero}:12345`);
    const said = outputOf(waiting);
    await new Promise((resolve) => setTimeout(resolve, 2500));
    waiting.kill('SIGINT');
    assert.equal(await said, '', 'Ctrl-C ends it without a stack');
    assert.equal(waiting.signalCode, 'SIGINT');
  } finally {
    server.kill();
    await once(server, 'close');
  }
  const missing = await reach(spaces, `${zero.replace(/\d+$/, '77')}:12345`);
  assert.equal(missing.outcome, 'no host');
  const elsewhere = await reach(spaces, '10.99.0.1:12345');
  assert.equal(elsewhere.outcome, 'no route');
  assert.match(elsewhere.found, new RegExp(`its networks: ${spaces.interface} ${one}/24`));
});
