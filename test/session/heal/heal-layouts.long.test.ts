import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { seeded } from '../../../src/core/random';
import type { Owner, StepRecord } from '../../../src/ledger/record';
import type { Job } from '../../../src/session/run/job';
import type { Run } from '../../../src/session/run/run';
import { casesHere } from '../../support/cases';
import { launchFor, temporaryFolder } from '../job-fixture';
import {
  armKill,
  assertEqualToTheBit,
  LAYOUTS,
  NUM_STEPS,
  numCollectives,
  randomKill,
  reshardedAfter,
  trained,
  trainThroughKill,
  WITHIN,
} from './heal-cases';

test('a run continues from copies in memory after a rank was killed within a collective, equal to the bit', async (context) => {
  const { path } = temporaryFolder(context);
  const job = await launchFor(context, { ranks: 4 });
  const random = seeded(11);
  for (const [name, config] of Object.entries(casesHere(LAYOUTS, ['FULL_SHARD', 'tp 2 x dp 2']))) {
    const undisturbed = await job.train(config);
    await undisturbed.step(3);
    await armKill(job, 0, 0);
    await undisturbed.step(1);
    const perStep = await numCollectives(job, 0);
    await undisturbed.step(NUM_STEPS - 4);
    const expected = await trained(undisturbed, join(path, 'expected'));
    await undisturbed.dispose();
    const kill = randomKill(random, 3 * perStep);
    const { run, step } = await trainThroughKill(job, config, { inMemoryCheckpointSteps: 2 }, kill);
    context.diagnostic(
      `${name}: rank ${kill.rank} in collective ${kill.nth} of ${perStep} per step: from step ${step}`,
    );
    assertEqualToTheBit(await trained(run, join(path, 'found')), expected, name);
    await run.dispose();
  }
});

test('a job continues with fewer ranks, within rounding of a run that was resharded at the same step', async (context) => {
  const { path } = temporaryFolder(context);
  const job = await launchFor(context, { ranks: 4 });
  const expected = await reshardedAfter(job, LAYOUTS.FULL_SHARD ?? {}, 4, 3);
  const kill = { rank: 1, nth: 30 };
  const { run, step } = await trainThroughKill(
    job,
    LAYOUTS.FULL_SHARD ?? {},
    { inMemoryCheckpointSteps: 2 },
    kill,
    { ranks: 3 },
  );
  assert.equal(step, 4);
  assert.deepEqual([job.numRanks, run.world], [3, 3]);
  const { losses } = await trained(run, join(path, 'found'));
  losses.forEach((loss, i) => {
    assert.ok(Math.abs(loss - (expected[i] ?? 0)) <= WITHIN, `${losses} and not ${expected}`);
  });
  const sums = await job.on('all').run(({ tf, dist, rank, worldSize }) => {
    const sum = tf.tensor([rank + 1]);
    dist.allReduce(sum);
    return [worldSize, sum.dataSync()[0]];
  });
  assert.deepEqual(sums, [
    [3, 6],
    [3, 6],
    [3, 6],
  ]);
});

test('a layout that does not fit is refused before anything changes', async (context) => {
  const job = await launchFor(context, { ranks: 4 });
  const run = await job.train(LAYOUTS['tp 2 x dp 2'], { inMemoryCheckpointSteps: 2 });
  await run.step(3);
  await assert.rejects(job.heal({ ranks: 2 }), {
    code: 'CONFIG',
    message:
      'job.heal({ ranks: 2 }): all 4 ranks run; await run.reshard({ world: 2 }) moves a run to fewer ranks',
  });
  await job.kill(3);
  await assert.rejects(job.heal({ ranks: 3 }), {
    code: 'CONFIG',
    message:
      'job.heal({ ranks: 3 }): run 1 divides its model by tp 2, pp 1, cp 1 and ep 1, which does not fit 3 ranks; ' +
      'job.heal({ ranks: 2 }) fits, and so does job.heal() with all 4',
  });
  await assert.rejects(job.heal({ ranks: 4 }), {
    code: 'CONFIG',
    message: /3 of 4 ranks run; give a number from 1 to 3/,
  });
  await job.heal({ ranks: 2 });
  assert.deepEqual([job.numRanks, run.world, run.lastStep], [2, 2, 2]);
  await run.step(2);
  assert.equal(run.losses.length, 4);
});

/** Kills rank 1 between two steps and heals the job; returns what heal says. */
async function healedFrom(job: Job, run: Run, options: object = {}): Promise<string> {
  await job.kill(1);
  await assert.rejects(run.step(), { code: 'RANK_DIED' });
  return String(await job.heal(options));
}

test('a run continues from a checkpoint, from copies if they are newer, and from its start only if the user says so', async (context) => {
  const { path } = temporaryFolder(context);
  const job = await launchFor(context, { ranks: 2 });
  const config = LAYOUTS.ZERO_1 ?? {};
  const whole = await job.train(config);
  await whole.step(6);
  const expected = [...whole.losses];
  await whole.dispose();

  const bare = await job.train(config);
  await bare.step(2);
  await assert.rejects(healedFrom(job, bare), {
    code: 'CONFIG',
    message: /^run 2 has no copy of its state and no checkpoint.*await job\.heal\(\{ fromStart: true \}\)/,
  });
  await assert.rejects(bare.step(), { code: 'CLOSED', message: /was not healed; await job\.heal\(\)/ });
  assert.match(
    String(await job.heal({ fromStart: true })),
    /^Run 2 begins again, from its first values; steps 1 to 2 are repeated\.$/,
  );
  await bare.step(3);
  assert.deepEqual(bare.losses, expected.slice(0, 3));
  await bare.save(join(path, 'saved'));
  await bare.step(1);
  assert.match(
    await healedFrom(job, bare),
    /^rank 1 runs again \(.*\)\.\nRun 2 continues after step 3, from the checkpoint .*saved; step 4 is repeated\.$/,
  );
  await bare.step(3);
  assert.deepEqual(bare.losses, expected);
  await bare.dispose();

  const copied = await job.train(config, { inMemoryCheckpointSteps: 2 });
  await copied.save(join(path, 'first'));
  await copied.step(3);
  assert.match(
    await healedFrom(job, copied),
    /Run 3 continues after step 2, from the copies in memory; step 3 is repeated\.$/,
  );
  await copied.step(4);
  assert.deepEqual(copied.losses, expected);
  await job.kill(0);
  await job.kill(1);
  assert.match(
    String(await job.heal()),
    /Run 3 continues after step 0, from the checkpoint|begins again, from the checkpoint/,
  );
  await copied.step(6);
  assert.deepEqual(copied.losses, expected);
});

test('the price of copies is in the ledger, to the byte', async (context) => {
  const job = await launchFor(context, { ranks: 4 });
  const run = await job.train(LAYOUTS.FULL_SHARD, { inMemoryCheckpointSteps: 2 });
  await run.step(3);
  const MODULE = 'in-memory checkpoint';
  const [without, copying, after] = [1, 2, 3].map((step) => run.records.ofStep(step));
  const heldBy = (record: StepRecord | undefined, holds: (owner: Owner) => boolean): number =>
    record?.memory.owners.reduce(
      (sum, owner, i) => sum + (holds(owner) ? (record.memory.atRest[i] ?? 0) : 0),
      0,
    ) ?? 0;
  const statesOf = (record: StepRecord | undefined): number =>
    heldBy(
      record,
      ({ cause, space }) => space === 'device' && (cause === 'param.shard' || cause === 'optimizer'),
    );
  const ofModule = (record: StepRecord | undefined) =>
    record?.collectives.filter(({ module, op }) => module === MODULE && (op === 'send' || op === 'recv')) ??
    [];
  for (const rank of [0, 1, 2, 3]) {
    const [own, previous] = [rank, (rank + 3) % 4].map((each) => statesOf(copying?.[each]));
    assert.ok(own !== undefined && previous !== undefined && own > 0);
    const copies = ({ module, space, cause }: Owner): boolean =>
      module === MODULE && space === 'host' && cause === 'comm';
    assert.equal(heldBy(without?.[rank], copies), 0);
    assert.equal(heldBy(copying?.[rank], copies), own + previous);
    assert.equal(heldBy(after?.[rank], copies), own + previous);
    const moved = ofModule(copying?.[rank]);
    const bytesOf = (op: string): number =>
      moved.filter((event) => event.op === op).reduce((sum, { bytes }) => sum + bytes, 0);
    assert.deepEqual([bytesOf('send'), bytesOf('recv')], [own, previous]);
    assert.ok(moved.every(({ cause }) => cause === 'control'));
    assert.deepEqual(ofModule(after?.[rank]), []);
    assert.equal(copying?.[rank]?.memory.residualBytes, 0);
  }
});

test('a kill while a checkpoint is written leaves a whole one, and the healed run saves again', async (context) => {
  const { path } = temporaryFolder(context);
  const job = await launchFor(context, { ranks: 2, transport: 'zeromq' });
  const config = LAYOUTS.FULL_SHARD ?? {};
  const whole = await job.train(config);
  await whole.step(5);
  const expected = whole.losses;
  await whole.dispose();
  const run = await job.train(config);
  await run.step(2);
  const folder = join(path, 'saved');
  await run.save(folder);
  await run.step(1);
  const { done } = await run.save(folder, { async: true });
  await job.kill(1);
  const isWritten = await done.then(
    () => true,
    () => false,
  );
  const { runs } = await job.heal();
  assert.equal(runs[0]?.step, isWritten ? 3 : 2);
  assert.equal((await run.save(folder)).step, run.lastStep);
  await run.step(5 - run.lastStep);
  assert.deepEqual(run.losses, expected);
  await run.save(folder);
  assert.equal((await run.load(folder)).step, 5);
});
