import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { inspect } from 'node:util';
import type { LaunchOptions } from '../../src/launch/options';
import { startRankProcess } from '../../src/launch/rank-process';
import { launch } from '../../src/session/run/launch';
import { registeredJobs } from '../../src/session/run/registry';
import { isAlive, launchFor, temporaryFolder, withTmpdir } from '../session/job-fixture';
import { valuesHere } from '../support/cases';

for (const ranks of valuesHere([1, 2, 4], [2])) {
  test(`${ranks} ranks are ${ranks} processes, each in its own group, with torchrun's environment`, async (context) => {
    const job = await launchFor(context, { ranks });
    const seen = await job.on('all').run(({ rank, worldSize }) => {
      const { RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, SHARDLAB_RANK } = process.env;
      const isPort = Number(MASTER_PORT) > 0;
      return {
        pid: process.pid,
        rank,
        worldSize,
        RANK,
        LOCAL_RANK,
        WORLD_SIZE,
        MASTER_ADDR,
        isPort,
        SHARDLAB_RANK,
      };
    });
    seen.forEach((one, rank) => {
      assert.equal(one.pid, job.ranks[rank]?.pid);
      assert.deepEqual([one.rank, one.worldSize], [rank, ranks]);
      assert.deepEqual(
        [one.RANK, one.LOCAL_RANK, one.WORLD_SIZE],
        [String(rank), String(rank), String(ranks)],
      );
      assert.deepEqual([one.MASTER_ADDR, one.isPort, one.SHARDLAB_RANK], ['127.0.0.1', true, undefined]);
      process.kill(-one.pid, 0);
    });
    assert.equal(new Set(seen.map(({ pid }) => pid)).size, ranks);
  });
}

test('a job is shown as the table of its ranks; shutdown ends the processes, removes the folder and the registration, and refuses further calls', async (context) => {
  const folder = temporaryFolder(context);
  const job = await withTmpdir(folder.path, () => launch({ ranks: 2, blas: 'none' }));
  assert.equal(folder.left().length, 1);
  assert.equal(registeredJobs().at(-1), job);
  assert.match(inspect(job), /rank +pid +RSS +engine +BLAS +transport +ready after ms/);
  const pids = job.ranks.map(({ pid }) => pid);
  await job.shutdown();
  await job.shutdown();
  assert.deepEqual(pids.map(isAlive), [false, false]);
  assert.deepEqual(folder.left(), []);
  assert.ok(!registeredJobs().includes(job));
  await assert.rejects(
    job.on('all').run(() => 1),
    { code: 'CLOSED' },
  );
});

test('shutdown ends busy ranks', async () => {
  const job = await launch({ ranks: 2, blas: 'none' });
  const busy = job.on('all').run(() => {
    for (;;);
  });
  const failed = assert.rejects(busy, { code: 'CLOSED' });
  await job.shutdown();
  await failed;
  assert.ok(!job.ranks.some(({ pid }) => isAlive(pid)));
});

test('wrong numbers of ranks are refused before anything starts', async (context) => {
  const folder = temporaryFolder(context);
  for (const ranks of [0, 1.5, 1000, 'x']) {
    const launched = withTmpdir(folder.path, () => launch({ ranks } as LaunchOptions));
    await assert.rejects(launched, { code: 'CONFIG' });
  }
  assert.deepEqual(folder.left(), []);
});

test("a rank that cannot start is a typed error with the rank's output, and nothing is left behind", async (context) => {
  const folder = temporaryFolder(context);
  const options = process.env.NODE_OPTIONS;
  process.env.NODE_OPTIONS = '--require /nonexistent/missing.js';
  try {
    await assert.rejects(
      withTmpdir(folder.path, () => launch({ ranks: 2 })),
      {
        code: 'LAUNCH',
        message: /ended \(exit code 1\).*missing\.js/s,
      },
    );
  } finally {
    if (options === undefined) delete process.env.NODE_OPTIONS;
    else process.env.NODE_OPTIONS = options;
  }
  assert.deepEqual(folder.left(), []);
});

test('ranks that are not ready in time are ended and named in the error', async () => {
  await assert.rejects(launch({ ranks: 2, startSeconds: 0.01 }), {
    code: 'LAUNCH',
    message: /2 of 2 ranks were not ready after 0.01 s/,
  });
});

test('a process that cannot be spawned is a typed error', async () => {
  const { execPath } = process;
  process.execPath = '/nonexistent/node';
  try {
    const started = startRankProcess({ rank: 1, env: {}, segmentFd: undefined, written: () => {} });
    await assert.rejects(started, {
      code: 'LAUNCH',
      message: /rank 1 could not be started with \/nonexistent\/node/,
    });
  } finally {
    process.execPath = execPath;
  }
});

test('an unwritable folder for temporary files is a typed error', async () => {
  const launched = withTmpdir('/nonexistent', () => launch({ ranks: 1 }));
  await assert.rejects(launched, { code: 'IO', message: /set TMPDIR/ });
});

for (const transport of ['shared-memory', 'zeromq'] as const) {
  test(`control and ${transport} work with a very long path for temporary files`, async (context) => {
    const long = join(temporaryFolder(context).path, 'x'.repeat(120));
    mkdirSync(long);
    const job = await withTmpdir(long, () => launchFor(context, { ranks: 2, transport }));
    const sums = await job.on('all').run(({ dist, tf, rank }) => {
      const x = tf.fill([1], rank);
      dist.allReduce(x);
      return [...x.dataSync()];
    });
    assert.deepEqual(sums, [[1], [1]]);
  });
}
