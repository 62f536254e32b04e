import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inspect } from 'node:util';
import { ShardlabError } from '../../../src/core';
import { Walk } from '../../../src/session/walk/walk';
import { HANG_MS, launchFor } from '../job-fixture';
import { fsdpStep, labelsOf } from './events-of-steps';

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
  await assert.rejects(walk.until('reduceScater'), /names no point \(did you mean 'reduceScatter'\?\)\. /);
  await assert.rejects(walk.next(0), /a whole number from 1/);
  await walk.until('reduceScatter');
  await assert.rejects(Promise.all([walk.next(), walk.next()]), /the walk is moving/);
  // A refused until is not a point that the walk looked for.
  await assert.rejects(Promise.all([walk.next(), walk.until('forward layer 7')]), /the walk is moving/);
  await walk.live();
  assert.doesNotMatch(inspect(walk), /without the point/);
  await assert.rejects(walk.next(), /the walk is over/);
  await run.step(1);
  const again = await run.walk();
  await again.until('forward layer 7');
  assert.match(inspect(again), /the step ended without the point 'forward layer 7'/);
  assert.match(again.record().title, /, step 3: the step ended without the point 'forward layer 7'$/);
});

test('live records the whole step, and a walk that is over moves no ranks of the next one', {
  timeout: HANG_MS,
}, async (context) => {
  const job = await launchFor(context, { ranks: 2 });
  const run = await job.train(CONFIG);
  const walk = await run.walk();
  await walk.next(2);
  await walk.live();
  const { rounds, points } = walk.record();
  assert.equal(rounds.length, fsdpStep(2, true).length + 1);
  assert.deepEqual(
    points.map((own) => own.length),
    [fsdpStep(2, true).length, fsdpStep(2, true).length],
  );
  const second = await run.walk();
  walk.goOn();
  await walk.live();
  await second.next(2);
  assert.equal(second.record().rounds.length, 3);
  await second.live();
});

test('an interrupt while a walk begins ends the walk, and the run continues', {
  timeout: HANG_MS,
}, async (context) => {
  const job = await launchFor(context, { ranks: 2 });
  const run = await job.train(CONFIG);
  for (const milliseconds of [0, 5, 20, 50]) {
    const done = run.lastStep;
    const begun = run.walk().catch((error: unknown) => error);
    await new Promise((resolve) => setTimeout(resolve, milliseconds));
    await job.interrupt();
    const walk = await begun;
    if (walk instanceof Walk) assert.equal(walk.isOver, true, `after ${milliseconds} ms`);
    else assert.equal(walk instanceof ShardlabError && walk.code, 'INTERRUPTED');
    await run.step(1);
    assert.ok(run.lastStep - done <= 2);
  }
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
  for (const call of [() => walk.next(100), () => walk.next(), () => walk.until('loss'), () => walk.live()])
    await assert.rejects(call, { code: 'RANK_DIED' });
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
  await assert.rejects(
    (job.walk as (work: unknown) => Promise<unknown>).call(job, '4'),
    /walk takes a function, or the number of a %%ranks cell, as job\.walk\(4\), not "4"/,
  );
  const walk = await job.walk(4);
  await walk.next(2);
  assert.deepEqual(labelsOf(walk, 0), ['allReduce #1', 'barrier #2', 'barrier #3']);
  assert.match(walk.points.toText(), /barrier #3 .* cell 4, line 2/);
  await job.interrupt();
  await assert.rejects(walk.live(), { code: 'INTERRUPTED' });
});
