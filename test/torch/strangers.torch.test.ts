import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { test } from 'node:test';
import type { ShardlabError } from '../../src/core/errors';
import type { Job } from '../../src/session/run/job';
import {
  awaitListeners,
  jobFiles,
  listenersOf,
  noStranger,
  playStranger,
  secretsOf,
} from '../support/stranger';
import { descendantsOf, GPT, launchTorch } from './torch-fixture';

const SUM = 'x = torch.ones(2)\ndist.all_reduce(x)\nx.tolist()';
/** Rank 0 makes the group, and so listens, a second before rank 1 connects. */
const LATE_GROUP = `import time
time.sleep(dist.get_rank())
late = dist.new_group([0, 1], use_local_synchronization=True)
secret = torch.full((4,), 7.0)
dist.all_reduce(secret, group=late)
secret.tolist()`;
/** Which of two ranks listens depends on their ports, so a group in whose making rank 0 listens comes within a few. */
const MOST_GROUPS = 12;

const TAKEN = /no rank of this job connected in place of ranks? .*got no values; .*run this again/;

/** Connects to each new port of a process in place of each of its peers while `work` runs; returns the bytes that came back. */
async function takePlaces(pid: number, work: () => Promise<unknown>): Promise<Buffer> {
  const known = new Set(listenersOf([pid]).map(({ port }) => port));
  const got: Buffer[] = [];
  const timer = setInterval(() => {
    for (const { host, port } of listenersOf([pid])) {
      if (known.has(port)) continue;
      known.add(port);
      for (let place = 0; place < 3; place++) {
        const hello = Buffer.alloc(8);
        hello.writeBigInt64LE(BigInt(place));
        const socket = connect(port, host, () => socket.write(hello));
        socket.on('data', (part) => got.push(part));
        socket.on('error', () => undefined);
      }
    }
  }, 2);
  try {
    await work();
  } finally {
    clearInterval(timer);
  }
  return Buffer.concat(got);
}

async function assertWorks(job: Job): Promise<void> {
  assert.deepEqual(await job.on('all').python(SUM), [
    [2, 2],
    [2, 2],
  ]);
}

test('another user who connects to all ports of ranks of PyTorch, and tries their files, gets nothing, and training continues', {
  skip: noStranger,
}, async (context) => {
  const job = await launchTorch(context, { ranks: 2 });
  const run = await job.train({ model: GPT, batch: 2, seed: 5, parallel: { strategy: 'FULL_SHARD' } });
  await run.step(1);
  const pids = [process.pid, ...descendantsOf(process.pid)];
  // The control link, and the groups of two ranks.
  const listeners = await awaitListeners(context, pids, 3);
  if (listeners === null) return;
  for (const { host } of listeners) assert.equal(host, '127.0.0.1');
  const steps = run.step(3);
  const { visits, read } = await playStranger(listeners, [...jobFiles(), ...secretsOf(pids)]);
  await steps;
  assert.deepEqual(read, []);
  // The control link sends a nonce to everybody; the ports of groups take nobody.
  const open = visits.filter(({ isOpen }) => isOpen);
  assert.equal(new Set(open.map(({ port }) => port)).size, 1);
  for (const { got } of open) assert.equal(Buffer.from(got, 'base64').length, 32);
  await run.step(1);
  assert.equal(run.losses.length, 5);
  await assertWorks(job);
});

test('the user that connects in place of a rank while a group is made gets no values, all ranks name the place, and the job works', {
  skip: process.platform !== 'linux' && 'only Linux lists the ports of a process in /proc',
}, async (context) => {
  const job = await launchTorch(context, { ranks: 2 });
  const [first] = job.ranks;
  let error: ShardlabError | undefined;
  for (let i = 0; i < MOST_GROUPS && error === undefined; i++) {
    const got = await takePlaces(first?.pid ?? 0, () =>
      job
        .on('all')
        .python(LATE_GROUP)
        .catch((thrown: ShardlabError) => {
          error = thrown;
        }),
    );
    const seven = Buffer.alloc(4);
    seven.writeFloatLE(7);
    assert.ok(!got.includes(Buffer.concat([seven, seven])), 'the stranger got values');
  }
  assert.equal(error?.code, 'RANK_FAILED');
  assert.match(error.message, TAKEN);
  await assertWorks(job);
});

test('no library pickles between ranks: no object arrives under any strategy', async (context) => {
  const job = await launchTorch(context, { ranks: 4 });
  await job.on('all').python(`import torch.distributed.distributed_c10d as c10d
objects = 0
original = c10d._tensor_to_object
def counted(*args, **kwargs):
    global objects
    objects += 1
    return original(*args, **kwargs)
c10d._tensor_to_object = counted
None`);
  const model = { ...GPT, layers: 4 };
  const cases = [
    [{ strategy: 'ZERO_1' }, {}],
    [{ strategy: 'FULL_SHARD', cp: 2 }, {}],
    [{ strategy: 'FULL_SHARD' }, { framework: 'fsdp1' }],
    [{ pp: 2, tp: 2 }, {}],
    [{ pp: 4, schedule: 'gpipe' }, {}],
  ] as const;
  for (const [parallel, options] of cases) {
    const run = await job.train({ model, batch: 4, seed: 5, parallel }, options);
    await run.step(2);
    await run.dispose();
    assert.deepEqual(await job.on('all').python('objects'), [0, 0, 0, 0], JSON.stringify(parallel));
  }
  await job.on('all').python('box = [None] * 4\ndist.all_gather_object(box, 1)\nNone');
  assert.deepEqual(await job.on(0).python('objects'), [4], 'the counter counts');
});
