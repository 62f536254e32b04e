import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { launchFor } from '../session/job-fixture';

test('every rank survives a hundred interrupts, in loops and in waits', async (context) => {
  const job = await launchFor(context, { ranks: 4 });
  const pids = job.ranks.map(({ pid }) => pid);
  for (let i = 0; i < 100; i++) {
    const stuck = job.on('all').run(({ rank, dist }) => {
      if (rank === 2) while (true);
      dist.barrier();
    });
    const ended = assert.rejects(stuck, { code: 'INTERRUPTED' });
    // Before, while and after the others reach the barrier.
    await delay((i * 7) % 60);
    await job.interrupt();
    await ended;
    assert.deepEqual(await job.on('all').run(() => process.pid), pids);
  }
});
