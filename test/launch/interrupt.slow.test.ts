import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ENDLESS, HANG_MS, launchFor, printed, resultsOf, runCell } from '../session/job-fixture';

/** An interrupt that fails leaves a cell that never ends. After this the test fails and its job is shut down. */
const LIMIT = { timeout: 4 * HANG_MS };

test(
  "an interrupt ends the ranks' code and keeps their state, and the next cell works",
  LIMIT,
  async (context) => {
    const job = await launchFor(context, { ranks: 2 });
    await runCell(job, 'let kept = rank + 5; let cleaned = false');
    let cell = 2;
    for (const [what, js] of Object.entries(ENDLESS)) {
      await context.test(what, async () => {
        const { seen, ended } = printed(job, js, 'running', cell++);
        await seen;
        await job.interrupt();
        const error = (await ended) as { code: string };
        assert.equal(error.code, 'INTERRUPTED');
        assert.deepEqual(resultsOf(await runCell(job, 'dist.barrier(); kept', cell++)), { 0: '5', 1: '6' });
      });
    }
  },
);

test('finally blocks run when an interrupt ends a blocking collective', LIMIT, async (context) => {
  const job = await launchFor(context, { ranks: 2 });
  await runCell(job, 'let cleaned = 0');
  const js =
    'console.log("running"); if (rank === 0) await new Promise(() => {}); try { dist.barrier() } finally { cleaned = 1 }';
  const { seen, ended } = printed(job, js, 'running', 2);
  await seen;
  await job.interrupt();
  await ended;
  assert.deepEqual(resultsOf(await runCell(job, 'cleaned', 3)), { 0: '0', 1: '1' });
});

test(
  'why and status name the rank that others wait for; after an interrupt why says who waited',
  LIMIT,
  async (context) => {
    const job = await launchFor(context, { ranks: 4 });
    const js = 'console.log("running");\nif (rank === 2) while (true) {}\ndist.barrier()';
    const { seen, ended } = printed(job, js, 'running', 8);
    await seen;
    let why = await job.why();
    // The other ranks reach the barrier a moment after the first has printed.
    while (why.waits[0]?.ranks.length !== 3) why = await job.why();
    assert.match(
      String(why),
      /^ranks 0, 1, 3 wait in barrier #\d+ \(cell 8, line 3\) for rank 2, which runs cell 8, line 2 \(/,
    );
    assert.match((await job.status()).toText(), /waiting/);
    await job.interrupt();
    assert.match(String(await ended), /cell 8 was interrupted; at that moment ranks 0, 1, 3 wait in barrier/);
    assert.match(
      String(await job.why()),
      /^when cell 8 was interrupted: ranks 0, 1, 3 wait.*\nnow nobody waits/,
    );
  },
);

test('an interrupt also ends queued calls, and does nothing while ranks are idle', LIMIT, async (context) => {
  const job = await launchFor(context, { ranks: 2 });
  await job.interrupt();
  const { seen, ended } = printed(job, 'console.log("running"); while (true) {}', 'running');
  await seen;
  const queued = assert.rejects(
    job.on(0).run(() => 1),
    { code: 'INTERRUPTED' },
  );
  await job.interrupt();
  await ended;
  await queued;
  assert.deepEqual(await job.on('all').run(({ rank }) => rank), [0, 1]);
});
