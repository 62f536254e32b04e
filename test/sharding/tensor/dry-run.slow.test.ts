import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { launchRanks } from '../../support/launch-ranks';
import type { PlannedResult } from './dry-run-rank';
import { RUNS } from './tensor-cases';

test('a dry run has the allocations, frees and collectives of real ranks, event by event', async () => {
  const named = Object.entries(RUNS[4]).filter(([, { dp }]) => dp !== 'DDP');
  const runs = named.map(([, run]) => run);
  const script = join(__dirname, 'dry-run-rank.js');
  const byRank = await launchRanks<PlannedResult[]>({ script, world: 4, args: { blas: 'auto', runs } });
  byRank.forEach((results, rank) => {
    results.forEach(({ real, planned }, i) => {
      assert.ok(real.length > 300);
      const first = real.findIndex((line, at) => line !== planned[at]);
      const where = `rank ${rank}, ${named[i]?.[0]}, event ${first}`;
      assert.deepEqual(planned.slice(first, first + 5), real.slice(first, first + 5), where);
      assert.equal(planned.length, real.length, where);
    });
  });
});
