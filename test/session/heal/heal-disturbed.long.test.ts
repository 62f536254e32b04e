import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { ShardlabError } from '../../../src/core';
import type { Job } from '../../../src/session/run/job';
import { launchFor, temporaryFolder } from '../job-fixture';
import { assertEqualToTheBit, LAYOUTS, NUM_STEPS, trained } from './heal-cases';

/** How long after its begin a heal is disturbed, in milliseconds; an undisturbed one takes about 1,000. */
const DELAYS = [0, 50, 150, 300, 450, 600, 750, 900, 1100, 1300];

/** How a heal ends that an interrupt or a kill disturbs. */
const CODES = ['INTERRUPTED', 'RANK_DIED', 'LAUNCH', 'ABORTED'];

/** What disturbs a heal after the end of rank 1, by its name. */
const DISTURBANCES: Readonly<Record<string, (job: Job) => Promise<unknown>>> = {
  'an interrupt': (job) => job.interrupt(),
  'the end of the healed rank': (job) => killIfThere(job, 1),
  'the end of its neighbour': (job) => killIfThere(job, 2),
};

/** A rank may have no process while it is started again. */
async function killIfThere(job: Job, rank: number): Promise<void> {
  await job.kill(rank).catch((error: unknown) => assert.ok(error instanceof ShardlabError, String(error)));
}

for (const [what, disturb] of Object.entries(DISTURBANCES)) {
  test(`${what} during a heal leaves a job that another heal continues, equal to the bit`, async (context) => {
    const { path } = temporaryFolder(context);
    const job = await launchFor(context, { ranks: 4 });
    const config = LAYOUTS.FULL_SHARD ?? {};
    const plain = await job.train(config);
    await plain.step(NUM_STEPS);
    const expected = await trained(plain, join(path, 'expected'));
    await plain.dispose();
    for (const milliseconds of DELAYS) {
      // The neighbour's end takes the copy with it, so there is a checkpoint too.
      const run = await job.train(config, { inMemoryCheckpointSteps: 2 });
      await run.step(2);
      await run.save(join(path, `saved-${milliseconds}`));
      await run.step(2);
      await job.kill(1);
      const healing = job.heal().then(
        () => 'healed',
        (error: unknown) => (error instanceof ShardlabError ? error.code : error),
      );
      await delay(milliseconds);
      await disturb(job);
      const ended = await healing;
      assert.ok(ended === 'healed' || CODES.includes(String(ended)), `${milliseconds} ms: ${String(ended)}`);
      await job.heal();
      context.diagnostic(`after ${milliseconds} ms: ${String(ended)}, then step ${run.lastStep}`);
      await run.step(NUM_STEPS - run.lastStep);
      assertEqualToTheBit(await trained(run, join(path, 'found')), expected, `${milliseconds} ms`);
      await run.dispose();
    }
  });
}
