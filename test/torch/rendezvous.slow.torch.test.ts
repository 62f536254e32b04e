import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { findTorch } from '../../src/torch/find-python';
import { repositoryRoot } from '../support/paths';
import { makeNamespaces, type Namespaces } from './namespaces';

const PAGE = readFileSync(join(repositoryRoot(), 'docs', 'how-to', 'clusters.md'), 'utf8');
const SUM = `import datetime, torch, torch.distributed as dist
dist.init_process_group('gloo', timeout=datetime.timedelta(seconds=40))
total = torch.ones(1)
dist.all_reduce(total)
print('the sum is', int(total.item()), flush=True)
`;
const folder = mkdtempSync(join(tmpdir(), 'rendezvous-'));
const script = join(folder, 'sum.py');
writeFileSync(script, SUM);
const spaces = makeNamespaces(4);
after(() => {
  if (typeof spaces !== 'string') spaces.remove();
  rmSync(folder, { recursive: true, force: true });
});

/** How a machine starts: its place among the namespaces is its number, unless it says another one. */
interface Start {
  readonly machine: number;
  readonly args?: readonly string[];
  readonly interface?: string;
}

/** Runs torchrun on a machine; returns all that it prints. */
async function torchrun(
  net: Namespaces,
  port: number,
  { machine, args, interface: name }: Start,
): Promise<string> {
  const [main] = net.hosts;
  const meeting = args ?? [
    `--node-rank=${machine}`,
    `--master-addr=${main?.address}`,
    `--master-port=${port}`,
    '--rdzv-conf=timeout=120',
  ];
  const [file = '', ...words] = [
    ...(net.hosts[machine]?.run ?? []),
    ...[findTorch(undefined), '-m', 'torch.distributed.run', '--nnodes=4', '--nproc-per-node=1'],
    ...[...meeting, script],
  ];
  const env = { ...process.env, OMP_NUM_THREADS: '1', GLOO_SOCKET_IFNAME: name ?? net.interface };
  const child = spawn(file, words, { env, stdio: ['ignore', 'pipe', 'pipe'] });
  let text = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (part) => (text += part));
  await once(child, 'close');
  return text;
}

/** Asserts that a launch printed an error, and that the page on clusters quotes it; '…' stands for any text, a number for any number. */
function assertQuoted(printed: string, quote: string): void {
  assert.ok(PAGE.includes(quote), `the page does not quote ${quote}`);
  const parts = quote
    .split(/(…|\d+)/)
    .map((part) =>
      part === '…' ? '.*' : /^\d+$/.test(part) ? '\\d+' : part.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&'),
    );
  assert.match(printed, new RegExp(parts.join('')));
}

test('with the static rendezvous, machines may start in any order', async (context) => {
  if (typeof spaces === 'string') return context.skip(spaces);
  const printed: Promise<string>[] = [];
  for (const machine of [3, 2, 0, 1]) {
    printed.push(torchrun(spaces, 12_345, { machine }));
    await new Promise((resolve) => setTimeout(resolve, 1500));
  }
  for (const text of await Promise.all(printed)) assert.match(text, /the sum is 4/);
});

test('a machine 0 that does not start, and a machine that is missing, end with the errors that the page on clusters quotes', async (context) => {
  if (typeof spaces === 'string') return context.skip(spaces);
  const address = spaces.hosts[0]?.address ?? '';
  const isStatic = (machine: number) => [
    ...[`--node-rank=${machine}`, `--master-addr=${address}`, '--master-port=12346', '--rdzv-conf=timeout=5'],
  ];
  const c10d = ['--rdzv-backend=c10d', '--rdzv-id=a', `--rdzv-endpoint=${address}:12347`];
  const [early, earlyC10d] = await Promise.all([
    torchrun(spaces, 0, { machine: 1, args: isStatic(1) }),
    torchrun(spaces, 0, { machine: 2, args: [...c10d, '--rdzv-conf=read_timeout=5'] }),
  ]);
  assertQuoted(
    early.replace(address, '10.0.0.1'),
    'torch.distributed.DistNetworkError: The client socket has timed out after 900000ms while trying to connect to (10.0.0.1, 12345).',
  );
  assertQuoted(earlyC10d, 'RendezvousConnectionError: The connection to the C10d store has failed.');
  const [alone, aloneC10d] = await Promise.all([
    torchrun(spaces, 0, { machine: 0, args: isStatic(0) }),
    torchrun(spaces, 0, { machine: 0, args: [...c10d, '--rdzv-conf=join_timeout=5,is_host=1'] }),
  ]);
  assertQuoted(
    alone,
    'torch.distributed.DistStoreError: Timed out after 901 seconds waiting for clients. 3/4 clients joined.',
  );
  assertQuoted(aloneC10d, 'RendezvousTimeoutError');
});

test('an interface that one machine does not have is an error there, and the other machines name the missing rank', async (context) => {
  if (typeof spaces === 'string') return context.skip(spaces);
  const [zero = '', , , three = ''] = await Promise.all(
    [0, 1, 2, 3].map((machine) =>
      torchrun(spaces, 12_348, { machine, ...(machine === 3 && { interface: 'eth9' }) }),
    ),
  );
  assertQuoted(three, 'Unable to find address for: eth9');
  assertQuoted(zero, 'DistStoreError: wait timeout …, keys: /default_pg/0//cpu//0/3');
  assert.match(zero, /cpu\/\/0\/3$/m);
});
