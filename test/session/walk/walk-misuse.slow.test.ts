import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inspect } from 'node:util';
import { HANG_MS, launchFor } from '../job-fixture';
import { labelsOf } from './events-of-steps';

const CONFIG = {
  model: { kind: 'gpt', layers: 2, dim: 16, heads: 2, vocab: 256, seq: 8 },
  parallel: { strategy: 'FULL_SHARD' },
  batch: 2,
} as const;

test('other work on halted ranks is refused, and texts that name no point too', {
  timeout: HANG_MS,
}, async (context) => {
  const job = await launchFor(context, { ranks: 2 });
  const run = await job.train(CONFIG);
  const walk = await run.walk();
  await assert.rejects(
    run.step(1),
    /this run halts in a walk; end it with await walk\.live\(\) before stepping/,
  );
  await assert.rejects(run.walk(), /this run halts in a walk/);
  await assert.rejects(
    job.on('all').run(({ rank }) => rank),
    /a walk halts ranks 0-1 in run\.step; end it with await walk\.live\(\) before other work on these ranks/,
  );
  await assert.rejects(walk.until('reduceScater'), /names no point; did you mean 'reduceScatter'/);
  await assert.rejects(walk.next(0), /a whole number from 1/);
  await walk.until('reduceScatter');
  await assert.rejects(Promise.all([walk.next(), walk.next()]), /the walk is moving/);
  await walk.live();
  await assert.rejects(walk.next(), /the walk is over/);
  await run.step(1);
  const again = await run.walk();
  await again.until('forward layer 7');
  assert.match(inspect(again), /the step ended without the point 'forward layer 7'/);
});

test('an interrupt completes the step of a walk, and the run continues', {
  timeout: HANG_MS,
}, async (context) => {
  const job = await launchFor(context, { ranks: 2 });
  const [run, plain] = [await job.train(CONFIG), await job.train(CONFIG)];
  const walk = await run.walk();
  await walk.until('backward');
  await job.interrupt();
  assert.equal(walk.isOver, true);
  await run.step(2);
  await plain.step(3);
  assert.deepEqual(run.losses, plain.losses);
});

test('a rank that is killed ends the walk with the error of a lost rank', {
  timeout: HANG_MS,
}, async (context) => {
  const job = await launchFor(context, { ranks: 2 });
  const run = await job.train(CONFIG);
  const walk = await run.walk();
  await walk.next(3);
  await job.kill(1);
  await assert.rejects(walk.next(100), { code: 'RANK_DIED' });
  assert.equal(walk.isOver, true);
});

test('a cell that is walked by its number runs again, and an interrupt ends it', {
  timeout: HANG_MS,
}, async (context) => {
  const job = await launchFor(context, { ranks: 2 });
  const js = 'dist.allReduce(tf.ones([2]));\nwhile (rank >= 0) dist.barrier();';
  const first = job.runCell({ js, cell: 4, selection: 'all' }, () => undefined).catch(() => undefined);
  await new Promise((resolve) => setTimeout(resolve, 300));
  await job.interrupt();
  await first;
  await assert.rejects(job.walk(5), /no %%ranks cell 5 has run in this job's ranks; the last ones are 4/);
  const walk = await job.walk(4);
  await walk.next(2);
  assert.deepEqual(labelsOf(walk, 0), ['allReduce #1', 'barrier #2', 'barrier #3']);
  assert.match(walk.points.toText(), /barrier #3 .* cell 4, line 2/);
  await job.interrupt();
  await assert.rejects(walk.live(), { code: 'INTERRUPTED' });
});
