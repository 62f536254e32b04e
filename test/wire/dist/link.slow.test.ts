import assert from 'node:assert/strict';
import { join } from 'node:path';
import test from 'node:test';
import { linkOf } from '../../../src/wire/transport/link';
import { probeSharedMemory } from '../../../src/wire/transport/native';
import { SHAPED } from './link.scenarios';
import { RankProcesses, valuesOf } from './rank-processes';
import type { TestPlane } from './scenario';

const FILE = join(__dirname, 'link.scenarios.js');

for (const plane of ['shared-memory', 'zeromq'] satisfies TestPlane[]) {
  const probe = probeSharedMemory();
  const skip = plane === 'shared-memory' && !probe.ok ? `no shared memory here: ${probe.reason}` : false;

  test(`over ${plane} a shaped wire finishes no collective sooner than its model says`, {
    skip,
    timeout: 60_000,
  }, async (t) => {
    const ranks = await RankProcesses.start(plane, 3, { link: linkOf(SHAPED) });
    try {
      for (const name of ['blockingCollectivesTakeTheirTimeOnTheWire', 'postedCollectivesQueueOnOneWire']) {
        await t.test(name, async () => void valuesOf(await ranks.run(FILE, name)));
      }
      await t.test(
        'a transfer begins when the last rank has arrived, and at the same time on all ranks',
        async () => {
          // The ranks' own answers.
          const times = valuesOf(await ranks.run(FILE, 'theTransferBeginsWhenAllHaveArrived')) as {
            came: number;
            started: number;
          }[];
          const last = Math.max(...times.map(({ came }) => came));
          const started = new Set(times.map((time) => time.started.toFixed(6)));
          assert.equal(started.size, 1);
          for (const time of times) assert.ok(time.started >= last);
        },
      );
      for (const name of ['aTransferThatTakesLong', 'aPostedTransferThatTakesLong']) {
        await t.test(`the launcher can abort ${name}`, async () => {
          const running = ranks.run(FILE, name);
          ranks.abort({ code: 'INTERRUPTED', text: 'you interrupted the cell' });
          for (const outcome of await running) {
            assert.ok(outcome !== undefined && 'error' in outcome);
            assert.equal(outcome.error.code, 'INTERRUPTED', outcome.error.message);
          }
          await ranks.reset();
          valuesOf(await ranks.run(FILE, 'nothingIsLeftOfIt'));
        });
      }
    } finally {
      await ranks.stop();
    }
  });
}
