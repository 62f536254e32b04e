import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { connect } from 'node:net';
import { test } from 'node:test';
import type { TrainConfigInput } from '../../src/config/train-config';
import type { ShardlabError } from '../../src/core/errors';
import type { LaunchOptions } from '../../src/launch/options';
import type { Job } from '../../src/session/run/job';
import { launch } from '../../src/session/run/launch';
import { makeNamespaces } from './namespaces';
import { GPT } from './torch-fixture';

const CONFIG: TrainConfigInput = {
  ...{ model: GPT, batch: 1, seed: 5, steps: 3 },
  parallel: { strategy: 'FULL_SHARD' },
};
/** Ranks of a host that was cut off end after 40 s of silence. */
const GONE_SECONDS = 60;

/** Python that returns a rank's address and its rank on its host. */
const WHERE = `import os, socket
probe = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
probe.connect((os.environ['MASTER_ADDR'], 9))
[probe.getsockname()[0], int(os.environ['LOCAL_RANK'])]`;

async function lossesOf(job: Job): Promise<readonly number[]> {
  const run = await job.train(CONFIG);
  await run.step(3);
  const { losses } = run;
  await run.dispose();
  return losses;
}

/** Connects as a stranger and writes `bytes`; returns what came back until the connection was closed. */
async function strange(host: string, port: number, bytes: Buffer): Promise<Buffer> {
  const socket = connect(port, host);
  const parts: Buffer[] = [];
  socket.on('data', (part) => parts.push(part));
  socket.on('error', () => undefined);
  socket.write(bytes);
  await new Promise((resolve) => socket.once('close', resolve));
  return Buffer.concat(parts);
}

/** Waits until the namespaces have no process; returns those that are left. */
async function untilEmpty(pids: () => string[]): Promise<string[]> {
  const end = Date.now() + GONE_SECONDS * 1e3;
  while (pids().length > 0 && Date.now() < end) await new Promise((resolve) => setTimeout(resolve, 500));
  return pids();
}

/** Returns the ports on which something listens on an IPv4 address of this machine. */
function listeningPorts(address: string): number[] {
  const bytes = address
    .split('.')
    .reverse()
    .map((byte) => Number(byte).toString(16).padStart(2, '0'));
  const wanted = bytes.join('').toUpperCase();
  const rows = readFileSync('/proc/net/tcp', 'utf8')
    .split('\n')
    .map((line) => line.trim().split(/\s+/));
  return rows.flatMap(([, local = '', , state]) => {
    const [host, port = ''] = local.split(':');
    return host === wanted && state === '0A' ? [Number.parseInt(port, 16)] : [];
  });
}

test('four hosts train as one machine does; a cut cable is a typed error and leaves no process', async (context) => {
  const spaces = makeNamespaces(4);
  if (typeof spaces === 'string') return context.skip(spaces);
  const { hosts, interface: name, address } = spaces;
  const jobs: Job[] = [];
  const launchHere = async (options: Omit<LaunchOptions, 'engine'>): Promise<Job> => {
    const job = await launch({ engine: 'torch', ...options });
    jobs.push(job);
    return job;
  };
  try {
    const single = await launchHere({ ranks: 8 });
    const expected = await lossesOf(single);
    await single.shutdown();
    const job = await launchHere({ ranks: 8, hosts, interface: name });
    assert.deepEqual(await lossesOf(job), expected);
    const places = await job.on('all').python(WHERE);
    assert.deepEqual(
      places,
      [0, 0, 1, 1, 2, 2, 3, 3].map((host, rank) => [hosts[host]?.address, rank % 2]),
    );

    const ports = listeningPorts(address);
    assert.equal(ports.length, 1);
    for (const bytes of [Buffer.alloc(64, 7), Buffer.from([0, 0, 0, 40, ...Buffer.alloc(40, 1)])]) {
      const got = await strange(address, ports[0] ?? 0, bytes);
      assert.equal(got.length, 32, 'only the nonce');
    }

    const run = await job.train(CONFIG);
    await run.step(1);
    const running = run.step(100_000);
    setTimeout(() => spaces.cut(3), 1000);
    await assert.rejects(running, (error: ShardlabError) => {
      assert.equal(error.code, 'RANK_DIED');
      assert.match(error.message, /rank [67]'s process ended \(its host was silent for 30 s\)/);
      return true;
    });
    await job.shutdown();
    assert.deepEqual(await untilEmpty(spaces.pids), []);
  } finally {
    for (const job of jobs) await job.shutdown();
    spaces.remove();
  }
});
