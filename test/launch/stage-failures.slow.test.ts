import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Tensor } from '@tensorflow/tfjs';
import { ShardlabError } from '../../src/core/errors';
import type { RankScope } from '../../src/launch/rank/scope';
import type { Job } from '../../src/session/run/job';
import { goneAfter, HANG_MS, isAlive, launchFor, temporaryFolder, withTmpdir } from '../session/job-fixture';

/** Ranks 0 and 1 have the first stage, ranks 2 and 3 the second; ranks 0 and 2 are one pipeline. */
const RANKS = 4;
const STRUCK = 2;

/**
 * 4 layers on 2 stages, and 4 microbatches. In the forward after which `forwardsLeft` is 0, the last layer, on the second stage,
 * stops its own process or never ends. A shell stops it, because Node runs its hooks of an exit before it sends itself a signal.
 */
const CONFIG = {
  model: ({ nn }: RankScope) => {
    class Struck extends nn.Module {
      forward(x: Tensor): Tensor {
        const left = Number(Reflect.get(globalThis, 'forwardsLeft')) - 1;
        Reflect.set(globalThis, 'forwardsLeft', left);
        if (left !== 0) return x;
        // The comm thread sends the gradient of the microbatch before in that second.
        const command = `sleep 1; kill -s STOP ${process.pid}`;
        while (Reflect.get(globalThis, 'isEndless'));
        process.getBuiltinModule('node:child_process').spawnSync('/bin/sh', ['-c', command]);
        return x;
      }
    }
    return new nn.Sequential(new nn.Linear(3, 8), new nn.ReLU(), new nn.Linear(8, 1), new Struck());
  },
  data: ({ tf, rank, worldSize }: RankScope, index: number) => {
    const first = 12 * (index * worldSize + rank);
    const x = tf.reshape(tf.sin(tf.range(first, first + 12)), [4, 3]);
    return { x, y: tf.sum(x, 1, true) };
  },
  loss: (output: Tensor, { y }: { y: Tensor }, { tf }: RankScope) => tf.losses.meanSquaredError(y, output),
  parallel: { pp: 2, schedule: '1f1b', microbatches: 4, strategy: 'NO_SHARD' },
} as const;

/** While the struck rank computes microbatch 2, the first stage has nothing to do but wait for its gradient. */
const waits = (state: string): RegExp =>
  new RegExp(
    'rank 0 waits in recv #\\d+ \\(the gradient of microbatch 2 from stage 1, group pp\\[0,2\\][^,]*, ' +
      `module stage 0 \\| 1\\) for rank 2, which ${state} `,
  );

/** The struck rank stops, or never ends, in the forward of microbatch 2 of the next step. */
async function strike(job: Job, how: 'stops' | 'never ends'): Promise<void> {
  await job.on(STRUCK).run((_, isEndless) => {
    Reflect.set(globalThis, 'forwardsLeft', 3);
    Reflect.set(globalThis, 'isEndless', isEndless);
  }, how === 'never ends');
}

/** Asks why until the report matches, or for as long as a test may hang; returns the last report. */
async function whyUntil(job: Job, pattern: RegExp): Promise<string> {
  const limit = performance.now() + HANG_MS;
  let report = '';
  while (!pattern.test(report) && performance.now() < limit) report = String(await job.why());
  return report;
}

/** The second test ends the job. */
test('a job with a rank that stops or dies in a stage', async (context) => {
  const folder = temporaryFolder(context);
  const job = await withTmpdir(folder.path, () => launchFor(context, { ranks: RANKS }));

  await context.test(
    'a stopped rank of a stage: why says who waits for which microbatch, and SIGCONT lets the step finish',
    async (t) => {
      const undisturbed = await job.train(CONFIG);
      await undisturbed.step(2);
      const run = await job.train(CONFIG);
      await run.step();
      await strike(job, 'stops');
      const stepping = run.step();
      const report = await whyUntil(job, waits('is stopped \\(kill -CONT \\d+ continues it\\)'));
      process.kill(job.ranks[STRUCK]?.pid ?? 0, 'SIGCONT');
      await stepping;
      t.diagnostic(report);
      assert.match(report, waits('is stopped \\(kill -CONT \\d+ continues it\\)'));
      assert.deepEqual(run.losses, undisturbed.losses);
    },
  );

  await context.test(
    'the death of a rank of a stage is an error that names it, and nothing is left of the job',
    async (t) => {
      const pids = job.ranks.map(({ pid }) => pid);
      const run = await job.train(CONFIG);
      await run.step();
      await strike(job, 'never ends');
      const failed = run.step().then(
        () => undefined,
        (thrown: unknown) => thrown,
      );
      assert.match(await whyUntil(job, waits('runs \\S+')), waits('runs \\S+'));
      const killed = performance.now();
      process.kill(pids[STRUCK] ?? 0, 'SIGKILL');
      const error = await failed;
      const seconds = (performance.now() - killed) / 1e3;
      assert.ok(error instanceof ShardlabError, `ended with ${String(error)}`);
      t.diagnostic(`after ${seconds.toFixed(2)} s: ${error.message}`);
      assert.equal(error.code, 'RANK_DIED');
      assert.equal(error.rank, STRUCK);
      assert.match(error.message, /rank 2's process ended \(SIGKILL\)/);
      assert.match(error.message, waits('has ended'));
      assert.match(error.message, /await job\.heal\(\) to start the rank again/);
      assert.ok(seconds < 5, `${seconds} s`);
      // RANK_DIED: their transfers were aborted. A rank that had to be interrupted has another code.
      const errors = Object.entries(error.details.errors as Record<number, { code: string }>);
      assert.deepEqual(
        errors.map(([rank, { code }]) => `${rank} ${code}`),
        ['0 RANK_DIED', '1 RANK_DIED', '2 RANK_DIED', '3 RANK_DIED'],
      );
      assert.deepEqual(pids.map(isAlive), [true, true, false, true]);
      await assert.rejects(run.step(), {
        code: 'CLOSED',
        message: /broke off within step 2; await job\.heal\(\) continues it/,
      });
      await job.shutdown();
      assert.ok((await goneAfter(pids)) !== undefined);
      assert.deepEqual(folder.left(), []);
    },
  );
});
