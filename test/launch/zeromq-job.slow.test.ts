import assert from 'node:assert/strict';
import { test } from 'node:test';
import { launchFor, printed, resultsOf, runCell } from '../session/job-fixture';

test('a job that exchanges tensors by messages works, is interrupted and fails like one with shared memory', async (context) => {
  const job = await launchFor(context, { ranks: 3, transport: 'zeromq' });
  assert.equal(job.ranks[0]?.transport, 'zeromq');
  const sum = 'let x = tf.fill([4], rank); dist.allReduce(x); x.arraySync()';
  const agreed = { 0: '[ 3, 3, 3, 3 ]', 1: '[ 3, 3, 3, 3 ]', 2: '[ 3, 3, 3, 3 ]' };
  assert.deepEqual(resultsOf(await runCell(job, sum, 1)), agreed);

  const { seen, ended } = printed(
    job,
    'console.log("running"); if (rank === 1) while (true) {}\ndist.barrier()',
    'running',
    2,
  );
  await seen;
  await job.interrupt();
  assert.equal(((await ended) as { code: string }).code, 'INTERRUPTED');
  assert.deepEqual(resultsOf(await runCell(job, sum, 3)), agreed);

  await assert.rejects(runCell(job, 'if (rank === 0) throw new Error("x"); dist.barrier()', 4), {
    code: 'RANK_FAILED',
  });
  await assert.rejects(runCell(job, 'if (rank !== 2) dist.barrier()', 5), {
    code: 'COLLECTIVE_MISSING',
    message: /rank 2/,
  });
  assert.deepEqual(resultsOf(await runCell(job, sum, 6)), agreed);

  const waiting = printed(
    job,
    'console.log("running"); if (rank === 1) await new Promise(() => {}); dist.barrier()',
    'running',
    7,
  );
  await waiting.seen;
  await job.kill(1);
  assert.equal(((await waiting.ended) as { code: string }).code, 'RANK_DIED');
});
