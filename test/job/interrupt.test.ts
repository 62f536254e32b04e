import assert from 'node:assert/strict';
import { test } from 'node:test';
import { launchFor, printed, resultsOf, runCell } from './job-fixture';

/** Cells that never end, by what they do. */
const ENDLESS = {
  'a busy loop': 'while (true) {}',
  'a busy loop after an await': 'await 0; while (true) {}',
  'a busy loop in a timer': 'setTimeout(() => { while (true) {} }, 1); await new Promise(() => {})',
  'a loop within tf.tidy': 'tf.tidy(() => { while (true) tf.ones([8]).dispose(); })',
  'a wait on memory': 'Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)',
  'a pending promise': 'await new Promise(() => {})',
  'a blocking collective': 'if (rank === 0) await new Promise(() => {}); dist.barrier()',
  'a loop that swallows errors': 'while (true) { try { if (rank === 0) dist.barrier(); } catch {} }',
};

test('an interrupt ends what ranks run, keeps their state, and the next cell works', async (context) => {
  const job = await launchFor(context, { ranks: 2 });
  await runCell(job, 'let kept = rank + 5; let cleaned = false');
  let cell = 2;
  for (const [what, js] of Object.entries(ENDLESS)) {
    await context.test(what, async (inner) => {
      const { seen, ended } = printed(job, `console.log("running");\n${js}`, 'running', cell++);
      await seen;
      const started = performance.now();
      await job.interrupt();
      const milliseconds = performance.now() - started;
      const error = (await ended) as { code: string };
      inner.diagnostic(`${what}: ${milliseconds.toFixed(0)} ms`);
      assert.equal(error.code, 'INTERRUPTED');
      assert.ok(milliseconds < 400, `took ${milliseconds} ms`);
      assert.deepEqual(resultsOf(await runCell(job, 'dist.barrier(); kept', cell++)), { 0: '5', 1: '6' });
    });
  }
});

test('finally runs when an interrupt ends a blocking collective', async (context) => {
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

test('while ranks wait, why and status say for whom; after the interrupt, why says who did', async (context) => {
  const job = await launchFor(context, { ranks: 4 });
  const js = 'console.log("running");\nif (rank === 2) while (true) {}\ndist.barrier()';
  const { seen, ended } = printed(job, js, 'running', 8);
  await seen;
  let text = '';
  // The other ranks reach the barrier a moment after the first has printed.
  while (!text.startsWith('ranks 0, 1, 3 wait')) text = String(await job.why());
  assert.match(
    text,
    /^ranks 0, 1, 3 wait in barrier #\d+ \(cell 8, line 3\) for rank 2, which runs cell 8 \(/,
  );
  assert.match((await job.status()).toText(), /waiting/);
  await job.interrupt();
  assert.match(String(await ended), /cell 8 was interrupted; at that moment ranks 0, 1, 3 wait in barrier/);
  assert.match(
    String(await job.why()),
    /^when cell 8 was interrupted: ranks 0, 1, 3 wait.*\nnow nobody waits/,
  );
});

test('an interrupt also ends calls that are queued, and does nothing while ranks are idle', async (context) => {
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
