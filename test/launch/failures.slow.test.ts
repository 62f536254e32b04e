import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ShardlabError } from '../../src/core/errors';
import { isAlive, launchFor, printed, resultsOf, runCell } from '../session/job-fixture';

/** The error with which a call fails. */
async function errorOf(call: Promise<unknown>): Promise<ShardlabError> {
  const error = await call.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  assert.ok(error instanceof ShardlabError, `ended with ${String(error)}`);
  return error;
}

test('failures of ranks are a typed error, and the next cell works', async (context) => {
  const job = await launchFor(context, { ranks: 3 });
  const stillWorks = async (cell: number): Promise<void> => {
    assert.deepEqual(resultsOf(await runCell(job, 'dist.barrier(); rank', cell)), { 0: '0', 1: '1', 2: '2' });
  };

  await context.test(
    "a rank that throws cancels the others' collectives, and the error names the rank with cell and line",
    async () => {
      const error = await errorOf(
        runCell(job, 'let late = 1;\nif (rank === 1) throw new TypeError("boo");\ndist.barrier()', 3),
      );
      assert.equal(error.code, 'RANK_FAILED');
      assert.match(error.message, /^\[rank 1\/3\] TypeError: boo \(cell 3, line 2\)/);
      const errors = error.details.errors as Record<number, { code: string }>;
      assert.deepEqual(
        Object.entries(errors).map(([rank, { code }]) => [rank, code]),
        [
          ['0', 'ABORTED'],
          ['1', 'RANK_FAILED'],
          ['2', 'ABORTED'],
        ],
      );
      await stillWorks(4);
    },
  );

  await context.test('the same error on all ranks is one error', async () => {
    const error = await errorOf(runCell(job, 'throw new Error("all")', 5));
    assert.match(error.message, /^\[ranks 0-2 of 3\] Error: all \(cell 5, line 1\)/);
    await stillWorks(6);
  });

  await context.test(
    'a rank that throws cancels other ranks that are busy without a collective',
    async () => {
      const error = await errorOf(runCell(job, 'if (rank === 0) throw new Error("x"); while (true) {}', 7));
      assert.match(error.message, /^\[rank 0\/3\]/);
      await stillWorks(8);
    },
  );

  await context.test('the error of a thrown value that is not an Error shows the value', async () => {
    assert.match((await errorOf(runCell(job, 'throw 17', 9))).message, /17/);
    assert.match((await errorOf(runCell(job, 'let = ;', 10))).message, /SyntaxError/);
    await stillWorks(11);
  });

  await context.test('a collective that one rank does not call is an error that names the rank', async () => {
    const error = await errorOf(runCell(job, 'if (rank !== 1) dist.barrier()', 12));
    assert.equal(error.code, 'COLLECTIVE_MISSING');
    assert.match(
      error.message,
      /ranks 0, 2 wait in barrier #\d+ \(cell 12, line 1\), but rank 1 ended without calling it/,
    );
    assert.deepEqual(error.details.idle, [1]);
    await stillWorks(13);
  });

  await context.test(
    'a collective in a cell of some ranks is an error that names the missing ranks',
    async () => {
      const error = await errorOf(runCell(job, 'dist.barrier()', 14, '0-1'));
      assert.equal(error.code, 'COLLECTIVE_MISSING');
      assert.match(error.message, /rank 2 ended without calling it/);
      await stillWorks(15);
    },
  );

  await context.test('a mismatch of collectives is an error on all ranks', async () => {
    const js = 'if (rank === 0) dist.barrier(); else dist.allReduce(tf.ones([4]))';
    const error = await errorOf(runCell(job, js, 16));
    assert.equal(error.code, 'COLLECTIVE_MISMATCH');
    await stillWorks(17);
  });

  await context.test('an unhandled rejection does not harm the next cell', async () => {
    await runCell(
      job,
      'void Promise.reject(new Error("stray")); await new Promise((r) => setTimeout(r, 20))',
      18,
    );
    await stillWorks(19);
  });
});

const WAITS = 'console.log("waits"); if (rank === 1) await new Promise(() => {}); dist.barrier()';

test('the death of a rank is a typed error in every rank that waits, and ends the job', async (context) => {
  const job = await launchFor(context, { ranks: 3 });
  const { seen, ended } = printed(job, WAITS, 'waits', 5);
  await seen;
  const victim = job.ranks[1]?.pid ?? 0;
  process.kill(victim, 'SIGKILL');
  const error = (await ended) as ShardlabError;
  assert.equal(error.code, 'RANK_DIED');
  assert.match(
    error.message,
    /rank 1's process ended \(SIGKILL\) while cell 5 ran.*await job\.heal\(\) to start the rank again/,
  );
  assert.equal((error.details.errors as Record<number, { code: string }>)[0]?.code, 'RANK_DIED');
  await assert.rejects(
    job.on(0).run(() => 1),
    { code: 'RANK_DIED', message: /await job\.heal\(\)/ },
  );
  assert.match((await job.status()).toText(), /ended \(SIGKILL\)/);
  await job.shutdown();
  assert.ok(!job.ranks.some(({ pid }) => isAlive(pid)));
});

test('the error of a rank that exits by itself names its exit code', async (context) => {
  const job = await launchFor(context, { ranks: 2 });
  const error = await errorOf(runCell(job, 'if (rank === 0) process.exit(3); dist.barrier()'));
  assert.equal(error.code, 'RANK_DIED');
  assert.match(error.message, /rank 0's process ended \(exit code 3\)/);
  assert.match(error.message, /its last words: the code called process\.exit\(3\) in In\[\d+\]/);
});

test('the next call reports the death of an idle rank', async (context) => {
  const job = await launchFor(context, { ranks: 2 });
  await job.kill(1);
  await assert.rejects(runCell(job, 'dist.barrier()'), {
    code: 'RANK_DIED',
    message: /rank 1's process ended/,
  });
});
