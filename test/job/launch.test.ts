import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { launch } from '../../src/job/launch';
import type { LaunchOptions } from '../../src/job/options';
import { startRankProcess } from '../../src/job/rank-process';
import { registeredJobs } from '../../src/job/registry';
import { goneAfter, isAlive, jobFolders, launchFor } from './job-fixture';

for (const ranks of [1, 2, 4]) {
  test(`${ranks} ranks are as many processes, each in a group of its own, with torchrun's environment`, async (context) => {
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

test('4 ranks are ready within 3 s and say so in a table', async (context) => {
  const start = performance.now();
  const job = await launchFor(context, { ranks: 4 });
  const seconds = (performance.now() - start) / 1e3;
  context.diagnostic(`4 ranks ready after ${seconds.toFixed(2)} s`);
  assert.ok(seconds < 3, `took ${seconds} s`);
  const [bundle] = [
    job[Symbol.for('Jupyter.display') as keyof typeof job] as unknown as () => Record<string, string>,
  ];
  assert.match(
    bundle.call(job)['text/plain'] ?? '',
    /rank +pid +RSS +engine +BLAS +transport +ready after ms/,
  );
});

test('shutdown ends the processes, removes the folder and the registration, and refuses further calls', async () => {
  const before = jobFolders();
  const job = await launch({ ranks: 2, blas: 'none' });
  assert.equal(registeredJobs().at(-1), job);
  const pids = job.ranks.map(({ pid }) => pid);
  await job.shutdown();
  await job.shutdown();
  assert.deepEqual(pids.map(isAlive), [false, false]);
  assert.deepEqual(
    jobFolders().filter((folder) => !before.includes(folder)),
    [],
  );
  assert.ok(!registeredJobs().includes(job));
  await assert.rejects(
    job.on('all').run(() => 1),
    { code: 'CLOSED' },
  );
});

test('shutdown ends ranks that are busy', async () => {
  const job = await launch({ ranks: 2, blas: 'none' });
  const busy = job.on('all').run(() => {
    for (;;);
  });
  const failed = assert.rejects(busy, { code: 'CLOSED' });
  await job.shutdown();
  await failed;
  assert.equal(
    (await goneAfter(
      job.ranks.map(({ pid }) => pid),
      100,
    )) !== undefined,
    true,
  );
});

test('bad counts of ranks are refused before anything starts', async () => {
  const before = jobFolders();
  for (const ranks of [0, 1.5, 1000, 'x']) {
    await assert.rejects(launch({ ranks } as LaunchOptions), { code: 'CONFIG' });
  }
  assert.deepEqual(jobFolders(), before);
});

test('a rank that cannot start is a typed error that says what it wrote, and nothing is left behind', async (context) => {
  const before = jobFolders();
  const folder = mkdtempSync(join(tmpdir(), 'shardlab-test-launch-'));
  context.after(() => rmSync(folder, { recursive: true }));
  const options = process.env.NODE_OPTIONS;
  process.env.NODE_OPTIONS = `--require ${join(folder, 'missing.js')}`;
  try {
    await assert.rejects(launch({ ranks: 2 }), {
      code: 'LAUNCH',
      message: /ended \(exit code 1\).*missing\.js/s,
    });
  } finally {
    if (options === undefined) delete process.env.NODE_OPTIONS;
    else process.env.NODE_OPTIONS = options;
  }
  assert.deepEqual(
    jobFolders().filter((name) => !before.includes(name)),
    [],
  );
});

test('ranks that are not ready in time are ended and named', async () => {
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
  const before = process.env.TMPDIR;
  process.env.TMPDIR = '/nonexistent';
  try {
    await assert.rejects(launch({ ranks: 1 }), { code: 'IO', message: /set TMPDIR/ });
  } finally {
    if (before === undefined) delete process.env.TMPDIR;
    else process.env.TMPDIR = before;
  }
});

test('a folder for temporary files with a very long path does not hinder the control link', async (context) => {
  const long = mkdtempSync(join(tmpdir(), `shardlab-test-${'x'.repeat(100)}-`));
  context.after(() => rmSync(long, { recursive: true }));
  const before = process.env.TMPDIR;
  process.env.TMPDIR = long;
  try {
    const job = await launchFor(context, { ranks: 1 });
    assert.deepEqual(await job.on(0).run(({ rank }) => rank), [0]);
  } finally {
    if (before === undefined) delete process.env.TMPDIR;
    else process.env.TMPDIR = before;
  }
  assert.ok(existsSync(long));
});
