import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ShardlabError } from '../../src/core/errors';
import type { LaunchOptions } from '../../src/launch/options';
import { isAlive, launchFor, resultsOf, runCell, temporaryFolder, withTmpdir } from '../session/job-fixture';

/** The error with which a call fails. */
async function errorOf(call: Promise<unknown>): Promise<ShardlabError> {
  const error = await call.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  assert.ok(error instanceof ShardlabError, `ended with ${String(error)}`);
  return error;
}

const SUM = 'const t = tf.tensor([rank + 1]); dist.allReduce(t); t.dataSync()[0]';

for (const transport of [
  'shared-memory',
  'zeromq',
] as const satisfies readonly LaunchOptions['transport'][]) {
  test(`a killed rank starts again, and cells and collectives work again (${transport})`, async (context) => {
    const job = await launchFor(context, { ranks: 3, transport });
    await runCell(
      job,
      'let kept = rank; const pair = dist.newGroup([0, 1]); let late = dist.newGroup([1, 2]);',
      1,
    );
    const [, , before] = job.ranks;
    await job.kill(2);
    assert.equal(isAlive(before?.pid ?? 0), false);
    const refused = await errorOf(runCell(job, '1', 2));
    assert.equal(refused.code, 'RANK_DIED');
    assert.equal(
      refused.message,
      "rank 2's process ended (SIGKILL); await job.heal() to start the rank again",
    );
    const healed = await job.heal();
    assert.deepEqual(healed.started, [2]);
    assert.deepEqual(healed.lostVariables, ['kept', 'late', 'pair']);
    assert.match(
      String(healed),
      /^rank 2 runs again \(.*\)\.\nThe variables of cells there are lost: kept, late, pair; run the cells that declare them again\.$/,
    );
    assert.notEqual(job.ranks[2]?.pid, before?.pid);
    assert.deepEqual(resultsOf(await runCell(job, SUM, 3)), { 0: '6', 1: '6', 2: '6' });
    const survivors = await runCell(job, 'dist.barrier({ group: pair }); kept', 4, '0-1');
    assert.deepEqual(resultsOf(survivors), { 0: '0', 1: '1' }, 'survivors keep variables and groups');
    const ended = await errorOf(runCell(job, 'dist.barrier({ group: late })', 5, '1'));
    assert.match(
      ended.message,
      /barrier in group .*, which ended with the process of rank 2; make the group again/,
    );
    const again = 'const next = dist.newGroup([1, 2]); if (rank > 0) dist.barrier({ group: next }); rank';
    assert.deepEqual(resultsOf(await runCell(job, again, 6)), { 0: '0', 1: '1', 2: '2' });
  });
}

test('heal is refused or has nothing to do when it should, and every failure leaves the job to another heal', async (context) => {
  const { path, left } = temporaryFolder(context);
  await withTmpdir(path, async () => {
    const job = await launchFor(context, { ranks: 2 });
    assert.equal(String(await job.heal()), 'all 2 ranks run: there is nothing to heal');
    assert.match((await errorOf(job.kill(2))).message, /^job\.kill\(2\): this job has ranks 0 to 1/);
    assert.match((await errorOf(job.kill(0.5))).message, /^job\.kill\(0\.5\): this job has ranks 0 to 1/);
    assert.match((await errorOf(job.kill(0, 'SIGSTOP' as never))).message, /takes one of SIGKILL, SIGTERM/);

    const waiting = errorOf(runCell(job, 'if (rank === 0) dist.barrier(); else while (true) {}', 1));
    await job.kill(1, 'SIGTERM');
    assert.match(
      (await waiting).message,
      /^rank 1's process ended \(SIGTERM\) while cell 1 ran; .*await job\.heal\(\) to start the rank again$/s,
    );
    assert.match((await errorOf(job.kill(1))).message, /has ended already \(SIGTERM\)/);

    const healing = job.heal();
    assert.equal((await errorOf(job.heal())).message, 'job.heal() already runs; await the running call');
    await job.interrupt();
    assert.equal((await errorOf(healing)).code, 'INTERRUPTED');
    assert.equal((await errorOf(runCell(job, '1', 2))).code, 'RANK_DIED');

    const second = job.heal();
    await job.kill(0);
    assert.equal((await errorOf(second)).code, 'RANK_DIED');
    const healed = await job.heal();
    assert.ok(healed.started.includes(0));
    assert.deepEqual(resultsOf(await runCell(job, SUM, 3)), { 0: '3', 1: '3' });

    await job.kill(0);
    await job.kill(1);
    assert.deepEqual((await job.heal()).started, [0, 1], 'all ranks at once');
    assert.deepEqual(resultsOf(await runCell(job, SUM, 4)), { 0: '3', 1: '3' });

    await job.kill(1);
    const late = errorOf(job.heal());
    await job.shutdown();
    assert.ok(['CLOSED', 'INTERRUPTED'].includes((await late).code));
    assert.equal((await errorOf(job.heal())).code, 'CLOSED');
    assert.deepEqual(left(), [], 'no litter');
    assert.ok(
      job.ranks.every(({ pid }) => !isAlive(pid)),
      'no orphan',
    );
  });
});
